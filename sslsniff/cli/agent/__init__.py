"""``sslsniff agent``: a capture as a service, described by a file."""
