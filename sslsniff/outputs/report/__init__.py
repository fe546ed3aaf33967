"""How does a capture become one page for a browser? ``page/`` is the page's own source."""
