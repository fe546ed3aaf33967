"""How values of each type are fetched and read: C and C++, Rust, Go."""
