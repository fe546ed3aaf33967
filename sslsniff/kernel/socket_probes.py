"""Attaches the programs that see socket calls: these give connections their addresses."""

import contextlib
from collections.abc import Callable
from typing import NamedTuple

from sslsniff.core.errors import KernelError
from sslsniff.kernel.loaders.loader import Detach, Loader


class _AttachMethod(NamedTuple):
    """A way to see socket calls: BPF programs, each with the place where it is attached."""

    name: str
    attacher: Callable[[Loader], Callable[[str, str], Detach]]
    programs: tuple[tuple[str, str], ...]


_METHODS = (
    _AttachMethod(  # kernel 6.3
        "tracepoints",
        lambda loader: loader.attach_raw_tracepoint,
        (("socket_sent", "sock_send_length"), ("socket_received", "sock_recv_length")),
    ),
    _AttachMethod(
        "kprobes",
        lambda loader: loader.attach_kprobe,
        (("tcp_sent", "tcp_sendmsg"), ("tcp_received", "tcp_recvmsg")),
    ),
)


def attach(loader: Loader) -> tuple[str, list[Detach]]:
    """Attach by the best method that the kernel has; return its name, and how to detach.

    Raises ``KernelError`` if the kernel has none.
    """
    for method in _METHODS:
        with contextlib.suppress(KernelError), contextlib.ExitStack() as attached:
            detaches = []
            for program, place in method.programs:
                detaches.append(method.attacher(loader)(program, place))
                attached.callback(detaches[-1])
            attached.pop_all()
            places = " and ".join(place for _, place in method.programs)
            return f"{method.name} on {places}", detaches
    raise KernelError(
        "the kernel does not report socket calls",
        "use kernel 6.3 or newer, or one with CONFIG_KPROBES",
    )
