//! A client and a server whose connections, but for the first, begin with early data (0-RTT).
//!
//!     early-data CERTIFICATE KEY COUNT
//!
//! Makes COUNT connections one after the other, with a request on each, and tells of them. Of a
//! request, as much as the server allows is sent before the handshake ends.

use std::env;
use std::io::{self, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use tls::rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection, StreamOwned};
use told::Request;

#[path = "../../blocking/src/http1.rs"]
mod http1;

const MOST_EARLY_BYTES: u32 = 1 << 15;

fn main() -> io::Result<()> {
    let [certificate, key, count] = env::args().skip(1).collect::<Vec<_>>().try_into().unwrap();
    let mut server = (*tls::server(&certificate, &key)).clone();
    server.max_early_data_size = MOST_EARLY_BYTES;
    let server = Arc::new(server);
    let mut client = (*tls::client(&certificate)).clone();
    client.enable_early_data = true;
    let client = Arc::new(client);

    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for tcp in listener.incoming() {
            serve(server.clone(), tcp.unwrap()).unwrap();
        }
    });
    for number in 0..count.parse().unwrap() {
        ask(client.clone(), TcpStream::connect(("127.0.0.1", port))?, number > 0)?;
    }
    Ok(())
}

fn ask(config: Arc<ClientConfig>, tcp: TcpStream, is_early: bool) -> io::Result<()> {
    let (from, to) = (tcp.local_addr()?, tcp.peer_addr()?);
    let mut connection = ClientConnection::new(config, "localhost".try_into().unwrap()).unwrap();
    let request = Request::next();
    let mut sent = Vec::new();
    http1::send(&mut sent, &request)?;
    let early = connection.early_data().map_or(Ok(0), |mut early| early.write(&sent))?;
    assert_eq!(early > 0, is_early);

    let mut stream = StreamOwned::new(connection, tcp);
    stream.write_all(&sent[early..])?;
    let mut stream = BufReader::new(stream);
    let answer = http1::receive(&mut stream)?;
    assert_eq!(stream.get_ref().conn.is_early_data_accepted(), is_early);
    request.tell("http/1.1", answer.second().parse().unwrap(), &answer.body, from, to);
    Ok(())
}

fn serve(config: Arc<ServerConfig>, mut tcp: TcpStream) -> io::Result<()> {
    let mut connection = ServerConnection::new(config).unwrap();
    while connection.is_handshaking() {
        connection.complete_io(&mut tcp)?;
    }
    let mut early = Vec::new();
    if let Some(mut data) = connection.early_data() {
        data.read_to_end(&mut early)?;
    }
    let mut stream = StreamOwned::new(connection, tcp);
    let asked = http1::receive(&mut BufReader::new((&early[..]).chain(&mut stream)))?;
    let body = match asked.second().strip_prefix("/bytes/") {
        Some(size) => told::bytes(size.parse().unwrap(), "sent"),
        None => asked.body,
    };
    let (nonce, length) = (asked.nonce, body.len());
    let head = format!("HTTP/1.1 200 OK\r\nx-nonce: {nonce}\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    stream.write_all(&body)?;
    stream.flush()
}
