"""Decoders of databases, from wire bytes on."""
