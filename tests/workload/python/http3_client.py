"""Requests by HTTP/3, by curl_cffi: curl with BoringSSL and ngtcp2, linked into one module.

    python http3_client.py PORT TRUSTED COUNT

Makes them over one connection, and writes each answer as a line.
"""

import io
import sys

from curl_cffi import Curl, CurlHttpVersion, CurlOpt


def main() -> None:
    """Make the requests."""
    port, trusted, count = sys.argv[1:]
    client = Curl(cacert=trusted)
    for number in range(int(count)):
        answer = io.BytesIO()
        client.setopt(CurlOpt.URL, f"https://localhost:{port}/{number}".encode())
        client.setopt(CurlOpt.HTTP_VERSION, CurlHttpVersion.V3ONLY)
        client.setopt(CurlOpt.WRITEDATA, answer)
        client.perform()
        print(answer.getvalue().decode())
    client.close()


if __name__ == "__main__":
    main()
