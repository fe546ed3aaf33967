"""The decoder of JSON-RPC."""
