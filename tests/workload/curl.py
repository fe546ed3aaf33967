"""Runs curl with known requests, and tells what curl itself knows of them."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.workload.passed import EMPTY, Passed, new_nonce, sha256
from tests.workload.servers import Certificate

_TOLD = (
    "%{filename_effective} %{http_version} %{response_code}"
    " %{local_ip} %{local_port} %{remote_ip} %{remote_port}"
)


@dataclass(frozen=True)
class Request:
    """A request for curl to make."""

    target: str
    method: str = "GET"
    body: bytes = b""
    nonce: str = field(default_factory=new_nonce)


def gets(count: int) -> list[Request]:
    """Return requests for so many small pages."""
    return [Request(f"/page/{number}?of={count}") for number in range(count)]


def curl(
    origin: str,
    requests: Sequence[Request],
    certificate: Certificate,
    directory: Path,
    *options: str,
) -> list[str]:
    """Return the command that makes ``requests``, in this order unless it is ``--parallel``."""
    command = ["curl", "-q"]
    for number, request in enumerate(requests):
        command += ["--next"] if number else []
        command += [
            "-sS",
            "--max-time",
            "20",
            "--noproxy",
            "localhost",
            "--cacert",
            str(certificate.certificate),
        ]
        command += ["-H", f"x-nonce: {request.nonce}", *options]
        command += _method(request, directory / f"{number}.sent")
        command += ["-o", str(directory / f"{number}.got"), "-w", _TOLD + r"\n"]
        command += [origin + request.target]
    return command


def _method(request: Request, file: Path) -> list[str]:
    if request.method == "HEAD":
        return ["-I"]
    if request.method == "GET":
        return []
    file.write_bytes(request.body)
    return ["-X", request.method, "--data-binary", f"@{file}"]


def results(stdout: str, requests: Sequence[Request]) -> list[Passed]:
    """Return what curl told on its standard output, and wrote to the files it was told to."""
    passed = []
    for line in stdout.splitlines():
        file, version, status, local, local_port, remote, remote_port = shlex.split(line)
        request = requests[int(Path(file).stem)]
        passed.append(
            Passed(
                nonce=request.nonce,
                protocol=f"http/{version}",
                method=request.method,
                target=request.target,
                status=int(status),
                client=(local, int(local_port)),
                server=(remote, int(remote_port)),
                request_sha256=sha256(request.body),
                response_sha256=EMPTY
                if request.method == "HEAD"
                else sha256(Path(file).read_bytes()),
            )
        )
    assert len(passed) == len(requests)
    return passed
