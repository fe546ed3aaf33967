"""HTTP/2 (RFC 9113), decoded passively, from the start of a connection or from its middle."""
