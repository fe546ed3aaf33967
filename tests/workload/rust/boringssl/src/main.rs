//! A client and a server with BoringSSL. All connections but the first begin with early data (0-RTT).
//!
//!     boringssl CERTIFICATE KEY COUNT
//!
//! Makes COUNT connections one after the other, with a request on each, and tells of them. Of a
//! request, the beginning is sent before the handshake ends.

use std::env;
use std::io::{self, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use boring::ssl::{
    Ssl, SslConnector, SslContext, SslContextBuilder, SslFiletype, SslMethod, SslRef, SslSession,
    SslSessionCacheMode,
};
use foreign_types::ForeignTypeRef;
use told::Request;

#[path = "../../blocking/src/http1.rs"]
mod http1;

/// The last session that the server gave.
type Kept = Arc<Mutex<Option<SslSession>>>;

fn main() -> io::Result<()> {
    let [certificate, key, count] = env::args().skip(1).collect::<Vec<_>>().try_into().unwrap();
    let count: usize = count.parse().unwrap();
    let server = server(&certificate, &key);
    let (client, kept) = client(&certificate);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let serving = thread::spawn(move || {
        for tcp in listener.incoming().take(count) {
            serve(&server, tcp.unwrap()).unwrap();
        }
    });
    for number in 0..count {
        ask(&client, &kept, TcpStream::connect(("127.0.0.1", port))?, number > 0)?;
    }
    serving.join().unwrap(); // its last call must return, to be seen
    Ok(())
}

fn server(certificate: &str, key: &str) -> SslContext {
    let mut builder = SslContextBuilder::new(SslMethod::tls()).unwrap();
    builder.set_certificate_chain_file(certificate).unwrap();
    builder.set_private_key_file(key, SslFiletype::PEM).unwrap();
    allow_early_data(&mut builder);
    builder.build()
}

fn client(trusted: &str) -> (SslConnector, Kept) {
    let mut builder = SslConnector::builder(SslMethod::tls()).unwrap();
    builder.set_ca_file(trusted).unwrap();
    builder.set_session_cache_mode(SslSessionCacheMode::CLIENT);
    allow_early_data(&mut builder);
    let kept = Kept::default();
    let keeping = kept.clone();
    builder.set_new_session_callback(move |_, session| *keeping.lock().unwrap() = Some(session));
    (builder.build(), kept)
}

fn allow_early_data(builder: &mut SslContextBuilder) {
    unsafe { boring_sys::SSL_CTX_set_early_data_enabled(builder.as_ptr(), 1) }
}

fn accepted_early_data(ssl: &SslRef) -> bool {
    unsafe { boring_sys::SSL_early_data_accepted(ssl.as_ptr()) == 1 }
}

fn ask(connector: &SslConnector, kept: &Kept, tcp: TcpStream, is_early: bool) -> io::Result<()> {
    let (from, to) = (tcp.local_addr()?, tcp.peer_addr()?);
    let mut ssl = connector.configure().unwrap().into_ssl("localhost").unwrap();
    if let Some(session) = kept.lock().unwrap().take() {
        unsafe { ssl.set_session(&session).unwrap() };
    }
    let mut stream = ssl.connect(tcp).unwrap();
    let request = Request::next();
    http1::send(&mut stream, &request)?;
    let mut stream = BufReader::new(stream);
    let answer = http1::receive(&mut stream)?;
    assert_eq!(accepted_early_data(stream.get_ref().ssl()), is_early);
    request.tell("http/1.1", answer.second().parse().unwrap(), &answer.body, from, to);
    Ok(())
}

fn serve(context: &SslContext, tcp: TcpStream) -> io::Result<()> {
    let mut stream = BufReader::new(Ssl::new(context).unwrap().accept(tcp).unwrap());
    let asked = http1::receive(&mut stream)?;
    let body = match asked.second().strip_prefix("/bytes/") {
        Some(size) => told::bytes(size.parse().unwrap(), "sent"),
        None => asked.body,
    };
    let (nonce, length) = (asked.nonce, body.len());
    let head = format!("HTTP/1.1 200 OK\r\nx-nonce: {nonce}\r\ncontent-length: {length}\r\n\r\n");
    stream.get_mut().write_all(head.as_bytes())?;
    stream.get_mut().write_all(&body)?;
    // The end of the handshake may be unread: with it in the socket, a close would be a reset.
    let _ = io::copy(&mut stream, &mut io::sink());
    Ok(())
}
