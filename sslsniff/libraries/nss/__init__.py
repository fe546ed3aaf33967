"""NSS: its rows, and where it keeps a socket's role."""
