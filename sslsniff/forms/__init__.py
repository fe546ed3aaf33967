"""How is an exchange written, the same way in all outputs? As text, as JSON, as columns."""
