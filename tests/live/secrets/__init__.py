"""Secrets of connections: key logs, and what tshark decrypts with them."""
