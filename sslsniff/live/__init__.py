"""How does a capture run? Targets found, probes placed, records read, threads held."""
