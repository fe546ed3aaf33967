"""What is in a Go program? Its release, its functions, its types, and places for probes."""
