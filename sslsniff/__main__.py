"""``python -m sslsniff``."""


def main() -> int:
    """Run the command line; return the exit code."""
    return 0
