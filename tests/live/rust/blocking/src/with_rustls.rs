use std::io::{Read, Write};
use std::net::TcpStream;

use tls::rustls::{ClientConnection, StreamOwned};

pub fn connect(tcp: TcpStream, trusted: &str) -> impl Read + Write {
    let name = "localhost".try_into().unwrap();
    StreamOwned::new(ClientConnection::new(tls::client(trusted), name).unwrap(), tcp)
}
