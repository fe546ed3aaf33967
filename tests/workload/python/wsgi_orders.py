"""A WSGI application that answers each POST with its body, and asks POST /stock with it before.

STOCK_PORT and STOCK_CERTIFICATE say where; STOCK_CLIENT is ``requests`` or ``http.client``.
It passes on ``x-request-id``.
"""

import functools
import http.client
import os
import ssl
import threading
from collections.abc import Callable, Iterable
from typing import Any

import requests

_OWN = threading.local()
_PORT = int(os.environ["STOCK_PORT"])
_CERTIFICATE = os.environ["STOCK_CERTIFICATE"]


@functools.cache
def _trusted() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=_CERTIFICATE)


def _by_requests(body: bytes, headers: dict[str, str]) -> None:
    if not hasattr(_OWN, "session"):
        _OWN.session = requests.Session()
    url = f"https://localhost:{_PORT}/stock"
    answer = _OWN.session.post(url, data=body, headers=headers, verify=_CERTIFICATE)
    answer.raise_for_status()


def _by_http_client(body: bytes, headers: dict[str, str]) -> None:
    if not hasattr(_OWN, "connection"):
        _OWN.connection = http.client.HTTPSConnection("localhost", _PORT, context=_trusted())
    _OWN.connection.request("POST", "/stock", body=body, headers=headers)
    _OWN.connection.getresponse().read()


_ASK = {"requests": _by_requests, "http.client": _by_http_client}[os.environ["STOCK_CLIENT"]]


def application(environment: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    """Answer an order."""
    body = environment["wsgi.input"].read()
    name = environment.get("HTTP_X_REQUEST_ID")
    _ASK(body, {"x-request-id": name} if name else {})
    start("200 OK", [("content-length", str(len(body)))])
    return [body]
