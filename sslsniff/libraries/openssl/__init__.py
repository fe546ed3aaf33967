"""OpenSSL: its rows, the layout of its objects, and its functions without symbols."""
