//! An HTTP/1.1 client without async: a thread for each connection.
//!
//!     blocking PORT TRUSTED COUNT...
//!
//! Makes COUNT requests on each connection, one after the other, and tells of them.
//! With `KEY_UPDATES` in the environment both sides take new keys after each request.

use std::env;
use std::io::{self, BufReader};
use std::net::TcpStream;
use std::thread;

use told::Request;

#[cfg_attr(feature = "openssl", path = "with_openssl.rs")]
#[cfg_attr(not(feature = "openssl"), path = "with_rustls.rs")]
mod connecting;
mod http1;

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
        http1::send(stream.get_mut(), &request)?;
        let answer = http1::receive(&mut stream)?;
        request.tell("http/1.1", answer.second().parse().unwrap(), &answer.body, from, to);
        #[cfg(feature = "key-updates")]
        if env::var("KEY_UPDATES").is_ok() {
            connecting::update_keys(stream.get_mut());
        }
    }
    Ok(())
}
