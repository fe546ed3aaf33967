"""What bodies are: content codings undone, text in its charset."""
