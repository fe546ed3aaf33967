"""How the kernel reports socket calls, which give connections their addresses."""

import contextlib
from collections.abc import Callable
from typing import NamedTuple

from sslsniff.errors import KernelError
from sslsniff.kernel.loaders.loader import Detach, Loader


class _Way(NamedTuple):
    """Programs and where they are attached: (program, place)."""

    name: str
    attacher: Callable[[Loader], Callable[[str, str], Detach]]
    programs: tuple[tuple[str, str], ...]


_WAYS = (
    _Way(  # kernel 6.3
        "tracepoints",
        lambda loader: loader.attach_raw_tracepoint,
        (("socket_sent", "sock_send_length"), ("socket_received", "sock_recv_length")),
    ),
    _Way(
        "kprobes",
        lambda loader: loader.attach_kprobe,
        (("tcp_sent", "tcp_sendmsg"), ("tcp_received", "tcp_recvmsg")),
    ),
)


def attach(loader: Loader) -> tuple[str, list[Detach]]:
    """Attach in the best way that the kernel has; return its name and what takes it away.

    Raises ``KernelError`` where there is none.
    """
    for way in _WAYS:
        with contextlib.suppress(KernelError), contextlib.ExitStack() as attached:
            detaches = []
            for program, place in way.programs:
                detaches.append(way.attacher(loader)(program, place))
                attached.callback(detaches[-1])
            attached.pop_all()
            return f"{way.name} on {' and '.join(place for _, place in way.programs)}", detaches
    raise KernelError(
        "the kernel does not tell of socket calls",
        "use kernel 6.3 or newer, or one with CONFIG_KPROBES",
    )
