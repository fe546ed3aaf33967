"""What does each subcommand do, and which options does it have? One module a subcommand."""
