//! An axum service whose handlers call functions and wait in between, so that they go on on other threads.
//!
//!     orders CERTIFICATE KEY
//!
//! Prints its port. GET /orders/N calls `find_order(N)`, waits, and calls `price(N)` three times.

use std::env;
use std::hint::black_box;
use std::io;
use std::time::Duration;

use axum::extract::Path;
use axum::routing::get;
use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

#[tokio::main(worker_threads = 4)]
async fn main() -> io::Result<()> {
    let [certificate, key] = env::args().skip(1).collect::<Vec<_>>().try_into().unwrap();
    let acceptor = TlsAcceptor::from(tls::server(&certificate, &key));
    let routes = Router::new().route("/orders/{number}", get(order));
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

async fn order(Path(number): Path<u64>) -> String {
    let found = find_order(number);
    let mut total = 0;
    for round in 0..3 {
        tokio::time::sleep(Duration::from_millis(1 + (number + round) % 7)).await;
        tokio::task::yield_now().await;
        total += price(found);
    }
    total.to_string()
}

#[inline(never)]
fn find_order(number: u64) -> u64 {
    black_box(number)
}

#[inline(never)]
fn price(number: u64) -> u64 {
    black_box(number * 3)
}
