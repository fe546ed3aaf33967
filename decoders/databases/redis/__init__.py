"""The protocol of Redis and Valkey, RESP 2 and 3."""
