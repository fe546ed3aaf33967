"""``python -m sslsniff``."""

import sys

from sslsniff.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
