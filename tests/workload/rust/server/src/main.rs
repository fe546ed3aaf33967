//! An axum server of HTTP/1.1 and HTTP/2 by ALPN.
//!
//!     server CERTIFICATE KEY
//!
//! Prints its port. GET /bytes/N answers N bytes, POST /echo the request's body, each with the
//! request's `x-nonce`; GET /panic panics, which is caught and answered with 500.

use std::env;
use std::io;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path};
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tower_http::catch_panic::CatchPanicLayer;

#[cfg(feature = "rustls-0-20")]
use tokio_rustls_023::TlsAcceptor;
#[cfg(feature = "rustls-0-21")]
use tokio_rustls_024::TlsAcceptor;
#[cfg(any(feature = "rustls-0-22-ring", feature = "rustls-0-22-aws-lc-rs"))]
use tokio_rustls_025::TlsAcceptor;
#[cfg(any(feature = "rustls-0-23-ring", feature = "rustls-0-23-aws-lc-rs"))]
use tokio_rustls_026::TlsAcceptor;

#[tokio::main]
async fn main() -> io::Result<()> {
    let [certificate, key] = env::args().skip(1).collect::<Vec<_>>().try_into().unwrap();
    let acceptor = TlsAcceptor::from(tls::server(&certificate, &key));
    let routes = Router::new()
        .route("/bytes/{size}", get(send))
        .route("/echo", post(echo))
        .route("/panic", get(panicking))
        .layer(DefaultBodyLimit::disable())
        .layer(CatchPanicLayer::new());
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    println!("{}", listener.local_addr()?.port());
    loop {
        let (tcp, _) = listener.accept().await?;
        tokio::spawn(serve(acceptor.clone(), tcp, routes.clone()));
    }
}

/// Serves one connection; how it ends is the client's affair.
async fn serve(acceptor: TlsAcceptor, tcp: TcpStream, routes: Router) {
    if let Ok(stream) = acceptor.accept(tcp).await {
        let _ = Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes))
            .await;
    }
}

async fn send(Path(size): Path<usize>, headers: HeaderMap) -> impl IntoResponse {
    (nonce(&headers), told::bytes(size, "sent"))
}

async fn echo(headers: HeaderMap, body: Bytes) -> impl IntoResponse {
    (nonce(&headers), body)
}

async fn panicking() -> &'static str {
    panic!("asked to")
}

fn nonce(headers: &HeaderMap) -> HeaderMap {
    headers
        .get("x-nonce")
        .map(|nonce| ("x-nonce".parse().unwrap(), nonce.clone()))
        .into_iter()
        .collect()
}
