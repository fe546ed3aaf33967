"""Memory that several processes share."""
