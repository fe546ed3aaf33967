"""Makes requests through libcurl, all at once: pycurl_client.py ORIGIN CERTIFICATE HTTP.

HTTP is 1.1 or 2. Each line of the input is a JSON list: method, target, nonce, and the file with
the body. What passed is told as a JSON object a line. Debian's pycurl uses the libcurl with GnuTLS.
"""

import hashlib
import io
import json
import sys
from pathlib import Path

import pycurl

HTTP_VERSIONS = {"1.1": pycurl.CURL_HTTP_VERSION_1_1, "2": pycurl.CURL_HTTP_VERSION_2_0}


def prepared(line: str, origin: str, certificate: str, version: str) -> pycurl.Curl:
    """Return a handle for the request in ``line``."""
    method, target, nonce, file = json.loads(line)
    handle = pycurl.Curl()
    handle.body = Path(file).read_bytes() if file else b""
    handle.got = io.BytesIO()
    handle.told = {"nonce": nonce, "method": method, "target": target}
    handle.setopt(pycurl.URL, origin + target)
    handle.setopt(pycurl.CAINFO, certificate)
    handle.setopt(pycurl.NOPROXY, "*")
    handle.setopt(pycurl.HTTP_VERSION, HTTP_VERSIONS[version])
    handle.setopt(pycurl.PIPEWAIT, 1)
    handle.setopt(pycurl.HTTPHEADER, [f"x-nonce: {nonce}", "Expect:"])
    handle.setopt(pycurl.WRITEDATA, handle.got)
    if method == "POST":
        handle.setopt(pycurl.POST, 1)
        handle.setopt(pycurl.READDATA, io.BytesIO(handle.body))
        handle.setopt(pycurl.POSTFIELDSIZE, len(handle.body))
    return handle


def passed(handle: pycurl.Curl, version: str) -> dict[str, object]:
    """Return what passed with a handle."""
    return {
        **handle.told,
        "protocol": f"http/{version}",
        "status": handle.getinfo(pycurl.RESPONSE_CODE),
        "client": [handle.getinfo(pycurl.LOCAL_IP), handle.getinfo(pycurl.LOCAL_PORT)],
        "server": [handle.getinfo(pycurl.PRIMARY_IP), handle.getinfo(pycurl.PRIMARY_PORT)],
        "request_sha256": hashlib.sha256(handle.body).hexdigest(),
        "response_sha256": hashlib.sha256(handle.got.getvalue()).hexdigest(),
    }


def main() -> None:
    """Do all requests."""
    assert "GnuTLS" in pycurl.version, pycurl.version
    origin, certificate, version = sys.argv[1:]
    requests = [prepared(line, origin, certificate, version) for line in sys.stdin]
    all_at_once = pycurl.CurlMulti()
    for each in requests:
        all_at_once.add_handle(each)
    running = len(requests)
    while running:
        all_at_once.select(1.0)
        _, running = all_at_once.perform()
    _, _, failed = all_at_once.info_read(len(requests))
    assert not failed, [each[1:] for each in failed]
    for each in requests:
        print(json.dumps(passed(each, version)))


if __name__ == "__main__":
    main()
