"""How values of C++'s types are fetched and read, with those of its two standard libraries."""
