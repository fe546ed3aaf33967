"""Statistics of exchanges at the end of a capture: --stats."""
