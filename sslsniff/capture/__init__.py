"""How does a capture run? Files found, probes placed, records read, threads held."""
