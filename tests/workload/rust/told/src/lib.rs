//! The requests that the clients make, and what they tell of them: a JSON object a line.

use std::env;
use std::fmt::Write;
use std::net::SocketAddr;
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};

use sha2::{Digest, Sha256};

/// The sizes of the bodies, one after the other.
const SIZES: [usize; 3] = [0, 1 << 10, 1 << 20];

/// A request that is like no other.
pub struct Request {
    pub nonce: String,
    pub method: &'static str,
    pub target: String,
    pub body: Vec<u8>,
}

impl Request {
    /// Returns the next one: a GET of a size, or a POST of a body of that size. With
    /// `PANIC_EVERY` in the environment so many of them have one that makes the server panic.
    pub fn next() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let size = SIZES[count / 2 % SIZES.len()];
        let nonce = format!("{}-{count}", process::id());
        if panic_every().is_some_and(|every| count % every == 0) {
            Self { nonce, method: "GET", target: "/panic".into(), body: vec![] }
        } else if count % 2 == 0 {
            Self { nonce, method: "GET", target: format!("/bytes/{size}"), body: vec![] }
        } else {
            let body = bytes(size, &nonce);
            Self { nonce, method: "POST", target: "/echo".into(), body }
        }
    }

    /// Tells that the request was answered, as tests/live/checks.py reads it.
    pub fn tell(
        &self,
        protocol: &str,
        status: u16,
        answer: &[u8],
        from: SocketAddr,
        to: SocketAddr,
    ) {
        println!(
            concat!(
                r#"{{"nonce":"{}","protocol":"{}","method":"{}","target":"{}","status":{},"#,
                r#""client":["{}",{}],"server":["{}",{}],"#,
                r#""request_sha256":"{}","response_sha256":"{}"}}"#
            ),
            self.nonce,
            protocol,
            self.method,
            self.target,
            status,
            from.ip(),
            from.port(),
            to.ip(),
            to.port(),
            sha256(&self.body),
            sha256(answer),
        );
    }
}

fn panic_every() -> Option<usize> {
    env::var("PANIC_EVERY").ok()?.parse().ok()
}

/// Returns `size` bytes that depend on `seed` and do not repeat.
pub fn bytes(size: usize, seed: &str) -> Vec<u8> {
    (0..size.div_ceil(32))
        .flat_map(|block| Sha256::digest(format!("{seed} {block}")))
        .take(size)
        .collect()
}

fn sha256(data: &[u8]) -> String {
    Sha256::digest(data).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}
