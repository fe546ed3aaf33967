"""What did calls of language models cost, and which are one run? Sinks add it before outputs."""
