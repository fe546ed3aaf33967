//! An HTTP/1.1 client without async: a thread for each connection.
//!
//!     blocking PORT TRUSTED COUNT...
//!
//! Makes COUNT requests on each connection, one after the other, and tells of them.

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::thread;

use told::Request;

#[cfg_attr(feature = "openssl", path = "with_openssl.rs")]
#[cfg_attr(not(feature = "openssl"), path = "with_rustls.rs")]
mod connecting;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [port, trusted, counts @ ..] = &arguments[..] else { panic!("PORT TRUSTED COUNT...") };
    thread::scope(|scope| {
        for count in counts {
            scope.spawn(move || ask(port, trusted, count.parse().unwrap()).unwrap());
        }
    });
}

fn ask(port: &str, trusted: &str, count: usize) -> io::Result<()> {
    let tcp = TcpStream::connect(format!("127.0.0.1:{port}"))?;
    let (from, to) = (tcp.local_addr()?, tcp.peer_addr()?);
    let mut stream = BufReader::new(connecting::connect(tcp, trusted));
    for _ in 0..count {
        let request = Request::next();
        send(stream.get_mut(), &request)?;
        let (status, answer) = receive(&mut stream)?;
        request.tell("http/1.1", status, &answer, from, to);
    }
    Ok(())
}

fn send(stream: &mut impl Write, request: &Request) -> io::Result<()> {
    let Request { nonce, method, target, body } = request;
    let length = body.len();
    write!(
        stream,
        "{method} {target} HTTP/1.1\r\nhost: localhost\r\nx-nonce: {nonce}\r\n\
         content-length: {length}\r\n\r\n"
    )?;
    stream.write_all(body)?;
    stream.flush()
}

/// Returns status and body of an answer, which tells its length.
fn receive(stream: &mut impl BufRead) -> io::Result<(u16, Vec<u8>)> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let status = line.split(' ').nth(1).unwrap().parse().unwrap();
    let mut length = 0;
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line)?;
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok((status, body))
}
