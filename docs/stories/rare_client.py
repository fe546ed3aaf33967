"""Downloads 40 files a second: ``rare_client PORT``."""

import contextlib
import itertools
import sys
import time

import requests

from docs.stories.system import requests_session

_EACH_S = 1 / 40
_FILES = 20


def main() -> None:
    """Download until the end."""
    session = requests_session()
    for number in itertools.count():
        with contextlib.suppress(requests.RequestException):
            session.get(f"https://localhost:{sys.argv[1]}/files/{number % _FILES}")
        time.sleep(_EACH_S)


if __name__ == "__main__":
    main()
