"""Real calls: a server and a client of grpcio, whose plaintext a proxy records."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from sslsniff.decoders.detect import Detector
from sslsniff.decoders.inner import grpc as decoding
from sslsniff.decoders.inner.inner_protocols import InnerProtocols
from sslsniff.decoders.messages import GrpcMessage, MessageEnd, RequestHead, ResponseHead, Side
from tests.unit.decoders.wires import C, S, Step, run

PATIENCE_S = 20


class _Proxy:
    """Passes bytes between a client and ``port``, and keeps them in order."""

    def __init__(self, port: int) -> None:
        self.wire: list[Step] = []
        self._lock = threading.Lock()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._sockets = [self._listening]
        self._threads = [threading.Thread(target=self._serve, args=(port,))]
        self._threads[0].start()

    def _serve(self, port: int) -> None:
        near, _ = self._listening.accept()
        far = socket.create_connection(("127.0.0.1", port))
        self._sockets += [near, far]
        self._threads += [
            threading.Thread(target=self._pass, args=ends)
            for ends in ((C, near, far), (S, far, near))
        ]
        for thread in self._threads[1:]:
            thread.start()

    def _pass(self, side: Side, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                with self._lock:
                    self.wire.append((side, data))
                    sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def end(self) -> None:
        for thread in list(self._threads):
            thread.join(PATIENCE_S)
        for each in self._sockets:
            each.close()


def _fail(_request: bytes, context: grpc.ServicerContext) -> bytes:
    context.abort(grpc.StatusCode.NOT_FOUND, "no such thing: caf\u00e9 100%")
    return b""


def _echo_all(requests: Iterator[bytes], _context: grpc.ServicerContext) -> Iterator[bytes]:
    for each in requests:
        yield each[::-1]


METHODS = {
    "Unary": grpc.unary_unary_rpc_method_handler(lambda data, _: data * 2),
    "Stream": grpc.unary_stream_rpc_method_handler(
        lambda data, _: (data + b"%d" % at for at in range(5))
    ),
    "Chat": grpc.stream_stream_rpc_method_handler(_echo_all),
    "Fail": grpc.unary_unary_rpc_method_handler(_fail),
}


@pytest.fixture(
    params=[grpc.Compression.NoCompression, grpc.Compression.Gzip, grpc.Compression.Deflate]
)
def calling(
    request: pytest.FixtureRequest,
) -> Iterator[tuple[grpc.Channel, Callable[[], list[Step]]]]:
    """Give a channel to a server, and a function that ends both and returns what passed."""
    pool = ThreadPoolExecutor(4)
    server = grpc.server(pool, compression=request.param)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("demo.Greeter", METHODS),)
    )
    proxy = _Proxy(server.add_insecure_port("127.0.0.1:0"))
    server.start()
    channel = grpc.insecure_channel(f"127.0.0.1:{proxy.port}", compression=request.param)

    def end() -> list[Step]:
        channel.close()
        proxy.end()
        server.stop(None).wait(PATIENCE_S)
        pool.shutdown()
        return proxy.wire

    yield channel, end
    end()


@pytest.mark.parametrize("size", [1 << 30, 997])
def test_calls_of_grpcio(calling: Any, size: int) -> None:
    channel, end = calling
    long = bytes(range(256)) * 2000
    assert channel.unary_unary("/demo.Greeter/Unary")(long) == long * 2
    assert list(channel.unary_stream("/demo.Greeter/Stream")(b"n")) == [
        b"n%d" % at for at in range(5)
    ]
    sent = [b"message %d " % at * 40 for at in range(20)]
    assert list(channel.stream_stream("/demo.Greeter/Chat")(iter(sent))) == [
        each[::-1] for each in sent
    ]
    with pytest.raises(grpc.RpcError) as failed:
        channel.unary_unary("/demo.Greeter/Fail")(b"?")
    with pytest.raises(grpc.RpcError):
        channel.unary_unary("/demo.Greeter/Missing")(b"?!")

    messages = run(InnerProtocols(Detector()), end(), size)
    paths = {m.stream: m.target for m in messages if isinstance(m, RequestHead)}
    told = [m for m in messages if isinstance(m, GrpcMessage)]
    assert {message.error for message in told} == {None}

    def of(method: str, side: Side) -> list[bytes]:
        return [
            m.data for m in told if paths[m.stream] == f"/demo.Greeter/{method}" and m.side is side
        ]

    assert (of("Unary", C), of("Unary", S)) == ([long], [long * 2])
    assert (of("Stream", C), of("Stream", S)) == ([b"n"], [b"n%d" % at for at in range(5)])
    assert (of("Chat", C), of("Chat", S)) == (sent, [each[::-1] for each in sent])
    assert (of("Fail", C), of("Fail", S)) == ([b"?"], [])
    assert (of("Missing", C), of("Missing", S)) == ([b"?!"], [])

    heads = {m.stream: m for m in messages if isinstance(m, ResponseHead)}
    statuses = {
        paths[m.stream]: decoding.status(m.trailers, heads[m.stream].headers)
        for m in messages
        if isinstance(m, MessageEnd) and m.side is S
    }
    assert statuses == {
        "/demo.Greeter/Unary": decoding.Status(0, ""),
        "/demo.Greeter/Stream": decoding.Status(0, ""),
        "/demo.Greeter/Chat": decoding.Status(0, ""),
        "/demo.Greeter/Fail": decoding.Status(5, failed.value.details()),
        "/demo.Greeter/Missing": decoding.Status(12, "Method not found!"),
    }


def test_calls_of_grpcio_when_joined(calling: Any) -> None:
    """The client and the server named their Content-Type before: bodies prove it."""
    channel, end = calling
    sent = [b"number %d" % at for at in range(10)]
    for each in sent:
        assert channel.unary_unary("/demo.Greeter/Unary")(each) == each * 2
    wire = end()
    whole = InnerProtocols(Detector())
    starts = [
        at
        for at, (side, data) in enumerate(wire)
        if any(isinstance(each, RequestHead) for each in whole.feed(side, data))
    ]
    assert len(starts) == 10
    messages = run(InnerProtocols(Detector()), wire[starts[1] :])
    told = [m for m in messages if isinstance(m, GrpcMessage)]
    behind_proof = [data for each in sent[5:] for data in (each, each * 2)]
    if told[0].compressed:  # nor can grpc-encoding be known
        assert {m.error for m in told} == {"compressed, and no grpc-encoding says how"}
        assert len(told) == len(behind_proof)
    else:
        assert [m.data for m in told] == behind_proof
