#!/bin/sh
# A server of rustls that has no certificate for the asked name sends "access denied".
#
# Version: rustls 0.23.36 with ring; the certificate is by rcgen 0.13.2.
# Behaviour: RFC 6066 (section 3) has the alert unrecognized_name, 112, for this. A server of rustls
# with ResolvesServerCertUsingSni sends access_denied, 49, which RFC 8446 (section 6.2) has for a
# valid certificate that gets no access. Who reads it looks for rights of the client.
# Output seen: rustls 0.23.36: the client got the alert AccessDenied
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mkdir -p src
cat > src/main.rs <<'RUST'
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::server::ResolvesServerCertUsingSni;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use std::sync::Arc;

fn main() {
    let made = rcgen::generate_simple_self_signed(vec!["known.example".to_string()]).unwrap();
    let key = PrivateKeyDer::try_from(made.key_pair.serialize_der()).unwrap();
    let key = rustls::crypto::ring::sign::any_supported_type(&key).unwrap();
    let mut names = ResolvesServerCertUsingSni::new();
    names
        .add("known.example", rustls::sign::CertifiedKey::new(vec![made.cert.der().clone()], key))
        .unwrap();
    let serving = ServerConfig::builder().with_no_client_auth().with_cert_resolver(Arc::new(names));
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let asking = Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth());
    let serving = Arc::new(serving);
    for name in ["known.example", "other.example"] {
        let mut server = ServerConnection::new(serving.clone()).unwrap();
        let mut client = ClientConnection::new(asking.clone(), ServerName::try_from(name).unwrap()).unwrap();
        let mut wire = Vec::new();
        client.write_tls(&mut wire).unwrap();
        server.read_tls(&mut &wire[..]).unwrap();
        let accepted = server.process_new_packets().is_ok();
        wire.clear();
        while server.wants_write() {
            server.write_tls(&mut wire).unwrap();
        }
        let mut rest = &wire[..];
        let mut told = Ok(());
        while !rest.is_empty() && told.is_ok() {
            client.read_tls(&mut rest).unwrap();
            told = client.process_new_packets().map(|_| ());
        }
        println!("{name}: the server goes on: {accepted}; the client: {told:?}");
    }
}
RUST
cat > Cargo.toml <<'TOML'
[package]
name = "unknown-name"
version = "0.0.0"
edition = "2021"
[dependencies]
rustls = { version = "=0.23.36", default-features = false, features = ["ring", "std"] }
rcgen = { version = "=0.13.2", default-features = false, features = ["ring"] }
TOML
cargo run -q > told.txt
grep -qx 'known.example: the server goes on: true; the client: Ok(())' told.txt
grep -qx 'other.example: the server goes on: false; the client: Err(AlertReceived(AccessDenied))' told.txt
echo "rustls 0.23.36: the client got the alert AccessDenied"
