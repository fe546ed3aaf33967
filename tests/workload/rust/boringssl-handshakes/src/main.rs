//! Handshakes with BoringSSL that fail.
//!
//!     boringssl-handshakes client KIND PORT COUNT TRUSTED
//!     boringssl-handshakes server KIND CERTIFICATE KEY AUTHORITY
//!
//! KIND: one of tests/workload/python/failing_handshakes.py; some need nothing of one side. The server
//! prints its port.

use std::env;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use boring::ssl::{
    SniError, Ssl, SslConnector, SslContext, SslContextBuilder, SslFiletype, SslMethod,
    SslVerifyMode, SslVersion,
};

fn main() -> io::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [side, kind, rest @ ..] = &arguments[..] else { panic!("client or server, KIND") };
    match (&side[..], rest) {
        ("client", [port, count, trusted]) => {
            (0..count.parse().unwrap()).try_for_each(|_| connect(kind, port, trusted))
        }
        ("server", [certificate, key, authority]) => serve(kind, certificate, key, authority),
        _ => panic!("wrong arguments"),
    }
}

fn connect(kind: &str, port: &str, trusted: &str) -> io::Result<()> {
    let mut builder = SslConnector::builder(SslMethod::tls()).unwrap();
    builder.set_ca_file(trusted).unwrap();
    if kind == "no_shared_version" {
        builder.set_max_proto_version(Some(SslVersion::TLS1_2)).unwrap();
    }
    let tcp = TcpStream::connect(format!("127.0.0.1:{port}"))?;
    let patience_ms = if kind == "timeout" { 200 } else { 10_000 };
    tcp.set_read_timeout(Some(Duration::from_millis(patience_ms)))?;
    if let Ok(mut stream) = builder.build().connect("localhost", tcp) {
        let _ = stream.write_all(b"not a protocol");
        let _ = stream.read(&mut [0; 100]);
    }
    Ok(())
}

fn serve(kind: &str, certificate: &str, key: &str, authority: &str) -> io::Result<()> {
    let context = context(kind, certificate, key, authority);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?.port());
    for tcp in listener.incoming() {
        let tcp = tcp?;
        let other = tcp.try_clone()?;
        if let Ok(mut stream) = Ssl::new(&context).unwrap().accept(tcp) {
            let _ = stream.read(&mut [0; 100]);
        }
        let _ = other.shutdown(Shutdown::Write);
        // What is unread would reset the connection, and the reset would overtake the alert.
        let _ = io::copy(&mut &other, &mut io::sink());
    }
    Ok(())
}

fn context(kind: &str, certificate: &str, key: &str, authority: &str) -> SslContext {
    let mut builder = SslContextBuilder::new(SslMethod::tls()).unwrap();
    builder.set_certificate_chain_file(certificate).unwrap();
    builder.set_private_key_file(key, SslFiletype::PEM).unwrap();
    match kind {
        "no_shared_version" => {
            builder.set_min_proto_version(Some(SslVersion::TLS1_3)).unwrap();
        }
        "client_certificate" | "untrusted_client" => {
            builder.set_ca_file(authority).unwrap();
            builder.set_verify(SslVerifyMode::PEER | SslVerifyMode::FAIL_IF_NO_PEER_CERT);
        }
        "unknown_name" => {
            builder.set_servername_callback(|_, _| Err(SniError::ALERT_FATAL));
        }
        _ => {}
    }
    builder.build()
}
