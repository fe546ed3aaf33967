#!/bin/sh
# A client of aioquic with connection ids of no bytes cannot connect to aioquic's own server.
#
# Version: aioquic 1.7.2.
# Behaviour: RFC 9000 (section 5.1) lets an endpoint choose an id of length 0, as browsers do. With
# connection_id_length=0 aioquic's client also addresses its first packet to an id of no bytes,
# where section 7.2 asks for 8, and announces further ids of no bytes by NEW_CONNECTION_ID, which
# section 19.15 forbids. Its server then closes the connection with FRAME_ENCODING_ERROR.
# Output seen: 8 bytes: connected; 0 bytes: closed, error 0x7
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check aioquic==1.7.2
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out cert.pem \
    -days 3 -subj /CN=localhost -addext subjectAltName=DNS:localhost 2>/dev/null
venv/bin/python - <<'PY'
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated


def attempt(id_bytes):
    asking = QuicConfiguration(is_client=True, alpn_protocols=["x"], server_name="localhost")
    asking.connection_id_length = id_bytes
    asking.load_verify_locations("cert.pem")
    serving = QuicConfiguration(is_client=False, alpn_protocols=["x"])
    serving.load_cert_chain("cert.pem", "key.pem")
    client = QuicConnection(configuration=asking)
    client.connect(("192.0.2.2", 443), 1.0)
    server = QuicConnection(
        configuration=serving,
        original_destination_connection_id=client.original_destination_connection_id,
    )
    closed = None
    for step in range(10):
        now = 1.0 + step / 100
        for data, _ in client.datagrams_to_send(now):
            server.receive_datagram(data, ("192.0.2.1", 1000), now)
        for data, _ in server.datagrams_to_send(now):
            client.receive_datagram(data, ("192.0.2.2", 443), now)
        for end in (client, server):
            while (event := end.next_event()) is not None:
                if isinstance(event, ConnectionTerminated):
                    closed = event.error_code
    for end in (client, server):
        if closed is None and end._close_event is not None:
            closed = end._close_event.error_code
    return "connected" if closed is None else f"closed, error {closed:#x}"


said = f"8 bytes: {attempt(8)}; 0 bytes: {attempt(0)}"
print(said)
raise SystemExit(said != "8 bytes: connected; 0 bytes: closed, error 0x7")
PY
