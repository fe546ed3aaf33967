"""Which bytes are of one TCP connection, and in which order? Paths, segments, events."""
