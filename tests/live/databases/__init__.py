"""Databases over TLS: real servers, each with its own client and Python drivers."""
