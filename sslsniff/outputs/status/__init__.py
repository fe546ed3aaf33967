"""How a capture goes, each second, for another process: --status-to."""
