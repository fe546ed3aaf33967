"""Requests by curl_cffi: curl with BoringSSL, linked into one module.

    python curl_cffi_client.py PORT TRUSTED FOLDER PROTOCOL NONCE...

Posts as awscrt_client.py does: FOLDER has the bodies by their nonces, and gets the answers.
"""

import io
import sys
from pathlib import Path

from curl_cffi import Curl, CurlHttpVersion, CurlInfo, CurlOpt

VERSIONS = {"1": CurlHttpVersion.V1_1, "2": CurlHttpVersion.V2_0}


def main() -> None:
    """Make the requests over one connection."""
    port, trusted, folder, protocol, *nonces = sys.argv[1:]
    client = Curl(cacert=trusted)
    ports = set()
    for nonce in nonces:
        body, answer = Path(folder, nonce).read_bytes(), io.BytesIO()
        client.setopt(CurlOpt.URL, f"https://localhost:{port}/echo".encode())
        client.setopt(CurlOpt.HTTP_VERSION, VERSIONS[protocol])
        client.setopt(CurlOpt.HTTPHEADER, [f"x-nonce: {nonce}".encode(), b"Expect:"])
        client.setopt(CurlOpt.POSTFIELDS, body)
        client.setopt(CurlOpt.POSTFIELDSIZE, len(body))
        client.setopt(CurlOpt.WRITEDATA, answer)
        client.perform()
        ports.add(client.getinfo(CurlInfo.LOCAL_PORT))
        Path(folder, f"{nonce}.got").write_bytes(answer.getvalue())
    [own_port] = ports
    print(own_port)
    client.close()


if __name__ == "__main__":
    main()
