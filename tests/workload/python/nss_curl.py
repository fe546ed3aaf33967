"""A client with the curl library that uses NSS, which Debian 12 has.

    python nss_curl.py PORT VERSION SIZE...

Posts a body of each SIZE to /echo over HTTP/VERSION, on one connection, and prints what passed: a
JSON object a line.
"""

import ctypes
import json
import sys
from hashlib import sha256
from secrets import token_hex

VERSIONS = {"1.1": 2, "2": 3}
WRITE = ctypes.CFUNCTYPE(
    ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p
)
# curl/curl.h
URL, HEADERS, BODY, WRITER = 10002, 10023, 10015, 20011
VERIFY_PEER, VERIFY_HOST, HTTP_VERSION, BODY_BYTES = 64, 81, 84, 60
STATUS, PORT, LOCAL_PORT = 0x200002, 0x200028, 0x20002A

curl = ctypes.CDLL("libcurl-nss.so.4")
curl.curl_easy_init.restype = ctypes.c_void_p
curl.curl_slist_append.restype = ctypes.c_void_p


def number(handle: ctypes.c_void_p, kind: int) -> int:
    """Return a number that curl knows of the last request."""
    found = ctypes.c_long()
    curl.curl_easy_getinfo(handle, kind, ctypes.byref(found))
    return found.value


def post(handle: ctypes.c_void_p, url: str, body: bytes) -> dict[str, object]:
    """Post a body; return what passed."""
    nonce, got = token_hex(12), bytearray()

    def write(data: int, size: int, count: int, _: object) -> int:
        got.extend(ctypes.string_at(data, size * count))
        return size * count

    writer = WRITE(write)
    headers = ctypes.c_void_p(curl.curl_slist_append(None, f"x-nonce: {nonce}".encode()))
    headers = ctypes.c_void_p(curl.curl_slist_append(headers, b"Expect:"))
    curl.curl_easy_setopt(handle, URL, ctypes.c_char_p(url.encode()))
    curl.curl_easy_setopt(handle, HEADERS, headers)
    curl.curl_easy_setopt(handle, BODY, ctypes.c_char_p(body))
    curl.curl_easy_setopt(handle, BODY_BYTES, ctypes.c_long(len(body)))
    curl.curl_easy_setopt(handle, WRITER, writer)
    if result := curl.curl_easy_perform(handle):
        raise SystemExit(f"curl's error {result}")
    return {
        "nonce": nonce,
        "method": "POST",
        "target": "/echo",
        "status": number(handle, STATUS),
        "client": ("127.0.0.1", number(handle, LOCAL_PORT)),
        "server": ("127.0.0.1", number(handle, PORT)),
        "request_sha256": sha256(body).hexdigest(),
        "response_sha256": sha256(got).hexdigest(),
    }


def main() -> None:
    """Post all."""
    port, version, *sizes = sys.argv[1:]
    handle = ctypes.c_void_p(curl.curl_easy_init())
    for option in (VERIFY_PEER, VERIFY_HOST):
        curl.curl_easy_setopt(handle, option, ctypes.c_long(0))
    curl.curl_easy_setopt(handle, HTTP_VERSION, ctypes.c_long(VERSIONS[version]))
    for size in map(int, sizes):
        passed = post(handle, f"https://127.0.0.1:{port}/echo", b"0123456789abcdef!" * size)
        print(json.dumps({**passed, "protocol": f"http/{version}"}), flush=True)


if __name__ == "__main__":
    main()
