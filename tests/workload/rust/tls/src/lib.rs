//! Configurations of one release of rustls, which a feature chooses.
//!
//! `TLS_VERSION=1.2` or `1.3` in the environment leaves only that version of the protocol.
//! `CLIENT_AUTHORITY` is the PEM file of an authority whose certificate clients must have; with
//! `NO_CERTIFICATE` a server has none, for any name.

#[cfg(feature = "rustls-0-20")]
pub use rustls_020 as rustls;
#[cfg(feature = "rustls-0-21")]
pub use rustls_021 as rustls;
#[cfg(any(feature = "rustls-0-22-ring", feature = "rustls-0-22-aws-lc-rs"))]
pub use rustls_022 as rustls;
#[cfg(any(feature = "rustls-0-23-ring", feature = "rustls-0-23-aws-lc-rs"))]
pub use rustls_023 as rustls;

#[cfg(any(feature = "rustls-0-20", feature = "rustls-0-21"))]
#[path = "before_0_22.rs"]
mod configurations;
#[cfg(not(any(feature = "rustls-0-20", feature = "rustls-0-21")))]
#[path = "since_0_22.rs"]
mod configurations;

use std::env;
use std::sync::Arc;

use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ServerConfig, SupportedProtocolVersion};

/// Returns what a server of HTTP/2 and HTTP/1.1 needs; `certificate` and `key` are PEM files.
pub fn server(certificate: &str, key: &str) -> Arc<ServerConfig> {
    let mut config = configurations::server(certificate, key);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}

/// Returns what a client needs that trusts the certificate in the PEM file `trusted` only.
pub fn client(trusted: &str) -> Arc<ClientConfig> {
    Arc::new(configurations::client(trusted))
}

fn versions() -> &'static [&'static SupportedProtocolVersion] {
    static ALL: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
    match env::var("TLS_VERSION").as_deref() {
        Ok("1.2") => &ALL[1..],
        Ok("1.3") => &ALL[..1],
        _ => &ALL,
    }
}
