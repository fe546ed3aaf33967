"""Which options does the command line have? Those of a subcommand are a frozen dataclass."""
