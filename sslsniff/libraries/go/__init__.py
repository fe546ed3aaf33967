"""Go: crypto/tls, and what is in a Go program: its release, functions, types, places for probes."""
