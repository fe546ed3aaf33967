"""What can be said on the command line? Each subcommand's options are a frozen dataclass."""
