"""A client with BoringSSL whose handshakes fail: ``KIND PORT COUNT TRUSTED``.

It needs curl_cffi, a copy of curl with BoringSSL inside.
"""

import contextlib
import sys

from curl_cffi import Curl, CurlError, CurlOpt

KIND, PORT, COUNT, TRUSTED = sys.argv[1:]
AT_MOST_TLS_1_2 = 6 << 16  # CURL_SSLVERSION_MAX_TLSv1_2 (curl/curl.h)
ONLY_IPV4 = 1
PATIENCE_MS = 10_000
IMPATIENT_MS = 200

for _ in range(int(COUNT)):
    curl = Curl()
    curl.setopt(CurlOpt.URL, f"https://localhost:{PORT}/".encode())
    curl.setopt(CurlOpt.IPRESOLVE, ONLY_IPV4)
    curl.setopt(CurlOpt.CAINFO, TRUSTED.encode())
    curl.setopt(CurlOpt.TIMEOUT_MS, IMPATIENT_MS if KIND == "timeout" else PATIENCE_MS)
    if KIND == "no_shared_version":
        curl.setopt(CurlOpt.SSLVERSION, AT_MOST_TLS_1_2)
    with contextlib.suppress(CurlError):
        curl.perform()
    curl.close()
