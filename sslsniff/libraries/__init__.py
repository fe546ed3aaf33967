"""Which TLS libraries are supported, and what is special about each? A folder for each of them."""
