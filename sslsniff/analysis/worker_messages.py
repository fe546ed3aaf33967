"""Messages between sslsniff and its workers: what ``worker`` describes."""

LARGEST_MESSAGE_BYTES = 64 << 10
"""The largest request to a worker, and the largest answer."""
