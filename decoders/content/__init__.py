"""The content of bodies: decompressed, and as text in its charset."""
