"""Requests and their answers as the ends of a connection know them."""

import hashlib
import json
import secrets
from dataclasses import dataclass

EMPTY = hashlib.sha256().hexdigest()


@dataclass(frozen=True, order=True)
class Passed:
    """One request and its answer; bodies as programs see them, without content coding."""

    nonce: str
    protocol: str
    method: str
    target: str
    status: int
    client: tuple[str, int]
    server: tuple[str, int]
    request_sha256: str = EMPTY
    response_sha256: str = EMPTY


def told(lines: str) -> list[Passed]:
    """Return what a program of tests/workload told, a JSON object a line."""
    objects = (json.loads(line) for line in lines.splitlines())
    return [
        Passed(**each | {"client": (*each["client"],), "server": (*each["server"],)})
        for each in objects
    ]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def new_nonce() -> str:
    return secrets.token_hex(12)
