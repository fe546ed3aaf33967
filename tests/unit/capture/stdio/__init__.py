"""Connections by standard input and output."""
