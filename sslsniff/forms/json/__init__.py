"""How is an exchange written as JSON? As docs/json.md says, and in short for the screen."""
