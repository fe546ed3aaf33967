"""Captures of plaintext TCP that others took: read as their packets tell."""

import json
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import wrpcap

from sslsniff.core.events import Addresses, Closed, Data, Event, Opened
from sslsniff.decoders.messages import Side
from sslsniff.files import replay as replay_module
from sslsniff.files.pcapng import SECTION, PcapngReader, PcapngWriter
from sslsniff.files.replay import ReplaySource
from tests.unit.captures import READ, WRITE, answer, get, of_connections, tshark_values
from tests.unit.files.foreign import ETHER, FAR, NEAR, Wire

SSLSNIFF = Path(sys.executable).with_name("sslsniff")


def read(path: Path, *options: str) -> list[str]:
    """Return the lines of ``sslsniff read``."""
    command = [str(SSLSNIFF), "read", str(path), *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return done.stdout.splitlines()


def summary(events: list[Event]) -> list[object]:
    """Return what matters of events, without times."""
    shown: list[object] = []
    for event in events:
        if isinstance(event, Opened):
            shown.append(("opened", event.role, event.from_start))
        elif isinstance(event, Addresses):
            shown.append((tuple(event.local), tuple(event.remote)))
        elif isinstance(event, Data):
            shown.append((event.direction, event.position, event.data or event.span))
        elif isinstance(event, Closed):
            shown.append(("closed", event.read_position, event.write_position))
    return shown


@pytest.mark.parametrize("form", ["pcap", "pcapng"])
def test_plaintext_tcp(tmp_path: Path, form: str) -> None:
    tcp = Wire()
    tcp.handshake()
    tcp.send(NEAR, b"request")
    tcp.send(FAR, b"response")
    tcp.end()
    assert summary(tcp.events(tmp_path / "file", form)) == [
        ("opened", Side.CLIENT, True),
        (NEAR, FAR),
        (WRITE, 0, b"request"),
        (READ, 0, b"response"),
        ("closed", 8, 7),
    ]


def test_out_of_order_repeated_and_lost(tmp_path: Path) -> None:
    tcp = Wire()
    tcp.handshake()
    packets = [tcp.send(FAR, data) for data in (b"aaaa", b"bbbb", b"cccc", b"dddd", b"eeee")]
    a, b, c, d, e = packets
    del tcp.packets[-5:]
    tcp.packets += [a, c, b, b, a, e]  # d is nowhere
    tcp.end()
    assert d not in tcp.packets
    assert summary(tcp.events(tmp_path / "file"))[2:] == [
        (READ, 0, b"aaaa"),
        (READ, 4, b"bbbb"),
        (READ, 8, b"cccc"),
        (READ, 12, 4),
        (READ, 16, b"eeee"),
        ("closed", 20, 0),
    ]


def test_joined_in_the_middle_and_never_ended(tmp_path: Path) -> None:
    tcp = Wire()
    tcp.send(FAR, b"tail of a response")
    tcp.send(NEAR, b"request")
    assert summary(tcp.events(tmp_path / "file")) == [
        ("opened", None, False),
        (FAR, NEAR),
        (WRITE, 0, b"tail of a response"),
        (READ, 0, b"request"),
    ]


def test_one_direction_only(tmp_path: Path) -> None:
    tcp = Wire()
    tcp.handshake()
    tcp.send(NEAR, b"one")
    tcp.send(FAR, b"unseen")
    tcp.send(NEAR, b"two")
    tcp.packets = [packet for packet in tcp.packets if packet[TCP].sport == NEAR[1]]
    assert summary(tcp.events(tmp_path / "file")) == [
        ("opened", Side.CLIENT, True),
        (NEAR, FAR),
        (WRITE, 0, b"one"),
        (WRITE, 3, b"two"),
    ]


def test_server_handshake_only(tmp_path: Path) -> None:
    tcp = Wire()
    tcp.handshake()
    del tcp.packets[0]
    tcp.send(FAR, b"banner")
    assert summary(tcp.events(tmp_path / "file"))[:3] == [
        ("opened", Side.CLIENT, True),
        (NEAR, FAR),
        (READ, 0, b"banner"),
    ]


def test_ports_used_again(tmp_path: Path) -> None:
    tcp = Wire()
    for data in (b"first", b"second"):
        tcp.handshake()
        tcp.send(NEAR, data)
    tcp.send(NEAR, flags="RA")
    late = tcp.send(NEAR, b"late")
    assert late in tcp.packets
    shown = summary(tcp.events(tmp_path / "file"))
    assert [each for each in shown if len(each) == 3] == [  # type: ignore[arg-type]
        ("opened", Side.CLIENT, True),
        (WRITE, 0, b"first"),
        ("closed", 0, 5),
        ("opened", Side.CLIENT, True),
        (WRITE, 0, b"second"),
        ("closed", 0, 6),
    ]


def test_repeated_handshake_is_one_connection(tmp_path: Path) -> None:
    tcp = Wire()
    tcp.handshake()
    tcp.packets.insert(1, tcp.packets[0])
    tcp.packets.insert(3, tcp.packets[2])
    tcp.send(NEAR, b"data")
    assert summary(tcp.events(tmp_path / "file"))[2:] == [(WRITE, 0, b"data")]


def test_sequence_numbers_wrap(tmp_path: Path) -> None:
    tcp = Wire()
    tcp._next[NEAR] = 2**32 - 4
    tcp.handshake()
    tcp.send(NEAR, b"before")
    tcp.send(NEAR, b"after")
    assert summary(tcp.events(tmp_path / "file"))[2:] == [
        (WRITE, 0, b"before"),
        (WRITE, 6, b"after"),
    ]


def test_cut_packets_are_gaps(tmp_path: Path) -> None:
    tcp = Wire()
    tcp.handshake()
    long = tcp.send(NEAR, b"0123456789")
    tcp.send(NEAR, b"next")
    raw = Ether(bytes(long)[:-6])
    tcp.packets[-2] = raw
    assert summary(tcp.events(tmp_path / "file"))[2:] == [
        (WRITE, 0, b"0123"),
        (WRITE, 4, 6),
        (WRITE, 10, b"next"),
    ]


def test_encrypted_connections_are_told(tmp_path: Path) -> None:
    from sslsniff.files.null_tls import client_hello

    hello = bytearray(client_hello("example.org", "h2", True))
    hello[hello.index(b"\0\2\0\1") + 3] = 0x2F
    tcp = Wire()
    tcp.handshake()
    tcp.send(NEAR, bytes(hello))
    tcp.events(tmp_path / "file")
    source = ReplaySource(tmp_path / "file")
    assert len(of_connections(source)) == 3
    assert source.warnings == [
        "encrypted connections: 1; a network capture has no plaintext of them"
    ]


def test_keys_in_the_file_are_told(tmp_path: Path) -> None:
    """As ``--packets`` writes them."""
    tcp = Wire()
    tcp.handshake()
    tcp.send(NEAR, b"\x17\x03\x03\x00\x40" + bytes(range(0x40)))
    tcp.write(tmp_path / "packets", "pcapng")
    path = tmp_path / "file.pcapng"
    with path.open("wb", buffering=0) as file:
        writer = PcapngWriter(file, "sslsniff", "Linux", "")
        writer.secrets(b"CLIENT_RANDOM 00 00\n")
        writer.close()
        file.write((tmp_path / "packets").read_bytes())
    source = ReplaySource(path)
    of_connections(source)
    assert source.warnings == [
        f"encrypted connections: 1; {path} has keys of them: Wireshark opens it decrypted"
    ]


def test_encrypted_connections_are_told_when_joined(tmp_path: Path) -> None:
    tcp = Wire()
    tcp.send(NEAR, b"\x17\x03\x03\x00\x40" + bytes(range(0x40)))
    opened, *_ = tcp.events(tmp_path / "file")
    assert isinstance(opened, Opened)
    assert opened.tls
    source = ReplaySource(tmp_path / "file")
    assert len(of_connections(source)) == 3
    assert source.warnings[0].startswith("encrypted connections: 1;")


def test_unknown_link_types_are_told(tmp_path: Path) -> None:
    wrpcap(str(tmp_path / "file"), [Raw(b"x" * 40), Raw(b"y" * 40)], linktype=147)
    source = ReplaySource(tmp_path / "file")
    assert of_connections(source) == []
    assert source.warnings == ["packets that were not read: 2, link type 147"]


def test_connections_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_module, "MOST_CONNECTIONS", 3)
    packets = [ETHER / IP() / TCP(sport=port, dport=80) / b"data" for port in range(1, 11)]
    wrpcap(str(tmp_path / "file"), packets)
    source = ReplaySource(tmp_path / "file")
    events = list(source)
    assert sum(isinstance(event, Opened) for event in events) == 10
    assert sum(isinstance(event, Closed) for event in events) == 7
    assert len(source._connections) == 0


@pytest.mark.heavy
def test_no_process_is_made_up(tmp_path: Path) -> None:
    tcp = Wire()
    tcp.handshake()
    tcp.send(NEAR, get("/a"))
    tcp.send(FAR, answer(b"ok"))
    tcp.end()
    tcp.write(tmp_path / "file")
    shown = read(tmp_path / "file")
    assert re.fullmatch(
        r"[0-9:.]+  192\.0\.2\.1:40000  198\.51\.100\.2:8080  http/1\.1    GET  .*", shown[0]
    )
    *_, exchange, _, _ = map(json.loads, read(tmp_path / "file", "--json"))
    assert (exchange["pid"], exchange["tid"], exchange["comm"]) == (None, None, None)
    for choice in ("~pid 0", "~comm ''"):
        assert read(tmp_path / "file", choice)[0].startswith("0 shown of 1 exchange")
    read(tmp_path / "file", "--pcap", str(tmp_path / "ours.pcapng"))
    with (tmp_path / "ours.pcapng").open("rb") as file:
        assert file.read(4) == SECTION
        packets = list(PcapngReader(file))
    assert len(packets) > 6
    assert {packet.process for packet in packets} == {None}
    assert set(tshark_values(tmp_path / "ours.pcapng", "frame.interface_name")) == {
        "process not known"
    }
    assert read(tmp_path / "ours.pcapng") == shown


@pytest.mark.heavy
@pytest.mark.parametrize("port", [8080, 8443])
def test_plaintext_is_not_shown_as_https(tmp_path: Path, port: int) -> None:
    """Neither at first, nor from a capture of ours that was made of it."""
    tcp = Wire()
    tcp.handshake()
    tcp.send(NEAR, get("/a"))
    tcp.send(FAR, answer(b"ok"))
    tcp.end()
    for packet in tcp.packets:
        end = "sport" if packet[TCP].sport == FAR[1] else "dport"
        setattr(packet[TCP], end, port)
    tcp.write(tmp_path / "file")
    read(tmp_path / "file", "--pcap", str(tmp_path / "ours.pcapng"))
    for capture in (tmp_path / "file", tmp_path / "ours.pcapng"):
        url = "http://example.org/a"
        assert re.search(f"  GET +200 .*  {url}$", read(capture)[0])
        opened, exchange, *_ = map(json.loads, read(capture, "--json"))
        assert opened["tls"] is False
        assert exchange["request"]["url"] == url
        archive = json.loads("".join(read(capture, "--har", "-")))
        assert archive["log"]["entries"][0]["request"]["url"] == url
        assert read(capture, "~u ^http:")[0] == read(capture)[0]
        assert read(capture, "~u ^https:")[0].startswith("0 shown of 1 exchange")


@pytest.mark.parametrize("ending", ["fin", "fin of the server first", "reset"])
@pytest.mark.parametrize("lost", range(3))
def test_an_end_is_told_within_a_second_behind_a_loss(
    tmp_path: Path, lost: int, ending: str
) -> None:
    """Exchanges should not wait for the end of the file, whichever packet of the last one lacks."""
    tcp = Wire(step_s=0.1)
    tcp.handshake()
    tcp.send(NEAR, get("/a"))
    body = [tcp.send(FAR, piece) for piece in (answer(bytes(30))[:-20], bytes(10), bytes(10))]
    if ending == "reset":
        tcp.send(NEAR, flags="R")
    else:
        first, second = (NEAR, FAR) if ending == "fin" else (FAR, NEAR)
        tcp.send(first, flags="FA")
        tcp.send(second, flags="FA")
        tcp.send(first)
    tcp.packets.remove(body[lost])
    later = range(20)  # 2 s
    tcp.packets += [ETHER / IP() / TCP(seq=at, flags="A") / b"x" for at in later]
    events = tcp.events(tmp_path / "file")
    kinds = [type(event) for event in events]
    assert len(kinds) - kinds.index(Closed) > (19 if ending == "reset" else 9)
    [closed] = [event for event in events if isinstance(event, Closed)]
    assert closed.write_position == len(get("/a"))
    whole = len(answer(bytes(30)))
    assert closed.read_position == (whole - 10 if (lost, ending) == (2, "reset") else whole)


def enhanced_packet(packet: bytes) -> bytes:
    return struct.pack("<5I", 0, 0, 0, len(packet), len(packet)) + packet + bytes(-len(packet) % 4)


@pytest.mark.heavy
@pytest.mark.parametrize("seconds", [-5_000_000_000, 1_795_000_000_000])  # 1811, and 58851
def test_times_that_no_output_can_show(tmp_path: Path, seconds: int) -> None:
    tcp = Wire()
    tcp.handshake()
    tcp.send(NEAR, get("/a"))
    tcp.send(FAR, answer(b"ok"))
    tcp.end()
    far = struct.pack("<q", seconds)  # the option if_tsoffset
    blocks = [
        (0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)),
        (1, struct.pack("<HHIHH", 1, 0, 0, 14, 8) + far),
        *((6, enhanced_packet(bytes(packet))) for packet in tcp.packets),
    ]
    with (tmp_path / "far").open("wb") as file:
        for kind, body in blocks:
            size = len(body) + 12
            file.write(struct.pack("<II", kind, size) + body + struct.pack("<I", size))
    for output in (["--json"], [], ["--har", "har"], ["--pcap", "pcap"], ["--report", "html"]):
        more = [each if each.startswith("--") else str(tmp_path / each) for each in output]
        shown = subprocess.run(
            [SSLSNIFF, "read", str(tmp_path / "far"), *more],
            capture_output=True,
            text=True,
            check=True,
        )
        assert shown.stderr.count("packets with times before 1970 or after 9999: 8;") == 1
        assert "Traceback" not in shown.stderr
    shown_exchange = [line for line in read(tmp_path / "far", "--json") if '"exchange"' in line]
    assert len(shown_exchange) == 1


def reset_in_the_middle(path: Path, ahead: int) -> tuple[list[str], str]:
    """Return what is shown of two exchanges with a RST between them, and the notes."""
    tcp = Wire()
    tcp.handshake()
    tcp.send(NEAR, get("/a"))
    tcp.send(FAR, answer(b"ok"))
    tcp.send(FAR, flags="R")[TCP].seq += ahead
    tcp.send(NEAR, get("/b"))
    tcp.send(FAR, answer(b"ok"))
    tcp.end()
    tcp.write(path)
    command = [str(SSLSNIFF), "read", str(path), "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    exchanges = [each for each in map(json.loads, done.stdout.splitlines()) if "request" in each]
    return [each["request"]["target"] for each in exchanges], done.stderr


@pytest.mark.heavy
@pytest.mark.parametrize("ahead", [-5000, -1, 2, 5000, 1 << 30])
def test_a_reset_with_another_number_ends_nothing(tmp_path: Path, ahead: int) -> None:
    """RFC 5961 section 3.2: whoever made it up does not know the next number."""
    assert reset_in_the_middle(tmp_path / "file", ahead) == (["/a", "/b"], "")


@pytest.mark.heavy
def test_bytes_after_a_reset_are_counted(tmp_path: Path) -> None:
    targets, notes = reset_in_the_middle(tmp_path / "file", 0)
    dropped = len(get("/b") + answer(b"ok"))
    assert targets == ["/a"]
    assert f"{dropped} bytes came after the end of their connections: not shown" in notes


def test_a_reset_after_missing_bytes_ends_the_connection_if_nothing_follows(tmp_path: Path) -> None:
    tcp = Wire(step_s=0.3)
    tcp.handshake()
    tcp.send(NEAR, get("/a"))
    tcp.send(FAR, answer(b"ok"))
    tcp.send(FAR, flags="R")[TCP].seq += 5000
    for _ in range(5):
        tcp.packets.append(ETHER / IP(src="203.0.113.1", dst="203.0.113.2") / TCP(flags="S"))
    events = tcp.events(tmp_path / "file")
    assert sum(isinstance(event, Closed) for event in events) == 1
