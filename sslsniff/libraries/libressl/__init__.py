"""LibreSSL: its rows. It has OpenSSL's interface."""
