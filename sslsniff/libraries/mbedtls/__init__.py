"""Mbed TLS: its rows."""
