"""rustls: the methods of its ciphers, its key log, and the joiner of its directions."""
