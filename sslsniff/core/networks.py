"""Compares networks: whether an address is that of the same machine for two processes."""

from sslsniff.core.model import Address
from sslsniff.core.process import Process


def is_one_network(one: Process, other: Process, address: Address) -> bool:
    """Return whether an address means the same to both processes, as far as that is known.

    A loopback address is another one in each network namespace; pods have one for all containers.
    """
    if not address.ip.startswith("127.") and address.ip != "::1":
        return True
    if one.machine != other.machine:
        return False
    return _network(one) == _network(other)


def _network(process: Process) -> str | None:
    container = process.container
    return container and (container.pod_uid or container.id)
