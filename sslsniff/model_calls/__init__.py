"""What did calls of language models cost? Sinks here add it to calls, before outputs show them."""
