"""A script that imports a client from a wheel, makes one request, and ends.

    python one_request.py CLIENT PORT NONCE

CLIENT is ``curl_cffi`` or ``pyreqwest``. It prints the response's status.
"""

import sys


def by_curl_cffi(url: str, nonce: str) -> int:
    """Ask by curl with BoringSSL, linked into one module."""
    from curl_cffi import requests

    answer = requests.get(url, verify=False, headers={"x-nonce": nonce})
    return int(answer.status_code)


def by_pyreqwest(url: str, nonce: str) -> int:
    """Ask by reqwest with rustls, in one module that is stripped."""
    from pyreqwest.client import SyncClientBuilder

    with SyncClientBuilder().danger_accept_invalid_certs(True).build() as client:
        return int(client.get(url).header("x-nonce", nonce).build().send().status)


CLIENTS = {"curl_cffi": by_curl_cffi, "pyreqwest": by_pyreqwest}

if __name__ == "__main__":
    name, port, nonce = sys.argv[1:]
    print(CLIENTS[name](f"https://localhost:{port}/late", nonce))
