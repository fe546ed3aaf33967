use std::net::TcpStream;

use tls::rustls::{ClientConnection, StreamOwned};

pub type Stream = StreamOwned<ClientConnection, TcpStream>;

pub fn connect(tcp: TcpStream, trusted: &str) -> Stream {
    let name = "localhost".try_into().unwrap();
    StreamOwned::new(ClientConnection::new(tls::client(trusted), name).unwrap(), tcp)
}

#[cfg(feature = "key-updates")]
pub fn update_keys(stream: &mut Stream) {
    stream.conn.refresh_traffic_keys().unwrap();
}
