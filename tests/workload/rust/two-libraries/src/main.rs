//! An HTTP/1.1 client with two TLS libraries in one file: rustls, and OpenSSL.
//!
//!     two-libraries PORT TRUSTED COUNT
//!
//! Makes COUNT requests on a connection of each, in turns, and tells of them.

use std::env;
use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use told::Request;

#[path = "../../blocking/src/http1.rs"]
mod http1;
#[path = "../../blocking/src/with_openssl.rs"]
mod with_openssl;
#[path = "../../blocking/src/with_rustls.rs"]
mod with_rustls;

fn main() -> io::Result<()> {
    let [port, trusted, count] = env::args().skip(1).collect::<Vec<_>>().try_into().unwrap();
    let open = || TcpStream::connect(format!("127.0.0.1:{port}"));
    let (first, second) = (open()?, open()?);
    let ends = |tcp: &TcpStream| Ok::<_, io::Error>((tcp.local_addr()?, tcp.peer_addr()?));
    let (rustls_ends, openssl_ends) = (ends(&first)?, ends(&second)?);
    let mut rustls = BufReader::new(with_rustls::connect(first, &trusted));
    let mut openssl = BufReader::new(with_openssl::connect(second, &trusted));
    for _ in 0..count.parse().unwrap() {
        ask(&mut rustls, rustls_ends)?;
        ask(&mut openssl, openssl_ends)?;
    }
    Ok(())
}

fn ask(
    stream: &mut BufReader<impl Read + Write>,
    (from, to): (SocketAddr, SocketAddr),
) -> io::Result<()> {
    let request = Request::next();
    http1::send(stream.get_mut(), &request)?;
    let answer = http1::receive(stream)?;
    request.tell("http/1.1", answer.second().parse().unwrap(), &answer.body, from, to);
    Ok(())
}
