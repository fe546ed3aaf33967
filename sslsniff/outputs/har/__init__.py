"""How does an exchange look in an HTTP Archive? HAR 1.2."""
