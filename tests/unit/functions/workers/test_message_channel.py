"""Messages of any length arrive whole; what is none is an error."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sslsniff.functions.workers import message_channel
from sslsniff.functions.workers.message_channel import (
    LongMessageError,
    MessageChannel,
    MessageError,
)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with one, other:
        one.settimeout(10)
        other.settimeout(10)
        yield one, other


def later() -> float:
    return time.monotonic() + 10


@pytest.mark.parametrize("length", [0, 1, (32 << 10) - 2, (32 << 10) - 1, 32 << 10, 3 << 20])
def test_messages_arrive_whole(ends: tuple[socket.socket, socket.socket], length: int) -> None:
    sent, received = map(MessageChannel, ends)
    text = "x" * length

    def send() -> None:
        sent.send(text)
        sent.send("next")

    sender = threading.Thread(target=send)
    sender.start()
    assert [received.receive(later()), received.receive(later())] == [text, "next"]
    sender.join()


def test_files_come_with_the_message(ends: tuple[socket.socket, socket.socket]) -> None:
    sent, received = map(MessageChannel, ends)
    with Path(os.devnull).open() as file:
        sent.send({"a": 1}, [file.fileno(), file.fileno()])
    message, files = received.receive_with_files()
    assert (message, len(files)) == ({"a": 1}, 2)
    for each in files:
        os.close(each)


@pytest.mark.parametrize("piece", [b".", b".{", b'."\xff"', b"+", b"." + b"[" * 30_000])
def test_what_is_no_message_is_an_error(
    ends: tuple[socket.socket, socket.socket], piece: bytes
) -> None:
    ends[0].send(piece)
    ends[0].close()
    with pytest.raises(MessageError):
        MessageChannel(ends[1]).receive(later())


def test_a_message_is_not_endless(
    ends: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_channel, "MOST_MESSAGE_BYTES", 100)
    sent, received = map(MessageChannel, ends)
    with pytest.raises(LongMessageError):
        sent.send("x" * 100)
    for _ in range(4):
        ends[0].send(b"+" + b"x" * 30)
    with pytest.raises(MessageError):
        received.receive(later(), 100)


def test_an_end_that_sends_nothing_on_and_on_is_not_waited_for(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    is_over = threading.Event()

    def send() -> None:
        while not is_over.wait(0.001):
            ends[0].send(b"+")

    sender = threading.Thread(target=send)
    sender.start()
    try:
        with pytest.raises(MessageError):
            MessageChannel(ends[1]).receive(time.monotonic() + 0.2)
    finally:
        is_over.set()
        sender.join()
