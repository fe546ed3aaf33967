use std::env;
use std::io::{Read, Write};
use std::net::TcpStream;

use openssl::ssl::{SslConnector, SslMethod, SslVersion};

pub fn connect(tcp: TcpStream, trusted: &str) -> impl Read + Write {
    let mut builder = SslConnector::builder(SslMethod::tls()).unwrap();
    builder.set_ca_file(trusted).unwrap();
    if env::var("TLS_VERSION").as_deref() == Ok("1.2") {
        builder.set_max_proto_version(Some(SslVersion::TLS1_2)).unwrap();
    }
    builder.build().connect("localhost", tcp).unwrap()
}
