#!/bin/sh
# A client of OpenSSL that refuses a certificate in TLS 1.3 sends its alert in clear, not encrypted.
#
# Version: OpenSSL 4.0 and 3.5, as cryptography 50.0.2 and 46.0.3 bring them, by pyOpenSSL 26.4.0 and
# 25.3.0.
# Behaviour: after the ServerHello each side has keys, and RFC 8446 (section 6) has alerts encrypted
# with them. OpenSSL's client takes its key for sending only when it sends its own part of the
# handshake, so an alert before that is a record of type 21 in clear. Who tells failures by the records
# sees OpenSSL's alerts, but not those of NSS, rustls and Go, which encrypt them.
# Output seen: OpenSSL 4.0.3: alert in clear: 15 03 03 00 02 02 30
#              OpenSSL 3.5.4: alert in clear: 15 03 03 00 02 02 30
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > refuse.py <<'PYTHON'
import datetime
import sys

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from OpenSSL import SSL, crypto

key = ec.generate_private_key(ec.SECP256R1())
name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
now = datetime.datetime.now(datetime.timezone.utc)
certificate = (
    x509.CertificateBuilder()
    .subject_name(name)
    .issuer_name(name)
    .public_key(key.public_key())
    .serial_number(1)
    .not_valid_before(now)
    .not_valid_after(now + datetime.timedelta(days=1))
    .sign(key, hashes.SHA256())
)
trusting = SSL.Context(SSL.TLS_METHOD)
trusting.use_certificate(crypto.X509.from_cryptography(certificate))
trusting.use_privatekey(crypto.PKey.from_cryptography_key(key))
refusing = SSL.Context(SSL.TLS_METHOD)
refusing.set_verify(SSL.VERIFY_PEER)
client, server = SSL.Connection(refusing), SSL.Connection(trusting)
client.set_connect_state()
server.set_accept_state()


def step(side):
    try:
        side.do_handshake()
    except SSL.WantReadError:
        pass


step(client)
server.bio_write(client.bio_read(1 << 16))
step(server)
client.bio_write(server.bio_read(1 << 16))
try:
    step(client)
except SSL.Error as error:
    assert "certificate verify failed" in str(error), error
sent = client.bio_read(1 << 16)
assert client.get_protocol_version_name() == "TLSv1.3"
version = SSL.SSLeay_version(SSL.SSLEAY_VERSION).decode().split()[1]
print(f"OpenSSL {version}: alert in clear: {sent.hex(' ')}")
sys.exit((sent[0], sent[3:]) != (21, bytes([0, 2, 2, 48])))
PYTHON
for versions in "26.4.0 50.0.2" "25.3.0 46.0.3"; do
    set -- $versions
    python3 -m venv "venv-$1"
    "venv-$1/bin/pip" install -q --disable-pip-version-check --no-cache-dir "pyOpenSSL==$1" "cryptography==$2"
    "venv-$1/bin/python" refuse.py
done
