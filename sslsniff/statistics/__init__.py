"""How many exchanges were there, how fast and how many failed, by host, path, process or model."""
