"""How a capture goes, each second, for the agent that started this process."""
