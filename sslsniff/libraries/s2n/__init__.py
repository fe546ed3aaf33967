"""s2n-tls: its rows."""
