"""``python -m sslsniff``."""

import sys

from sslsniff.cli import main

if __name__ == "__main__":
    sys.exit(main())
