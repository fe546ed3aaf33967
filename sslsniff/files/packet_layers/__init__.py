"""Which TCP segment is in a captured packet? Links, IP and tunnels, taken apart."""
