"""wolfSSL: its rows."""
