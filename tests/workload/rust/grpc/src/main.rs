//! A tonic server of `google.protobuf.BytesValue` messages.
//!
//!     grpc CERTIFICATE KEY
//!
//! Prints its port. /test.Echo/Unary answers with the message that it was sent,
//! /test.Echo/Streaming with each of them as it comes. The metadata of the answers tell the
//! request's `x-nonce`, and in `x-client` the address that it came from.

use std::env;
use std::fs;

use axum::routing::post;
use axum::Router;
use tonic::server::Grpc;
use tonic::service::Routes;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;
use tower::service_fn;

type Message = Vec<u8>;
type Codec = ProstCodec<Message, Message>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [certificate, key] = env::args().skip(1).collect::<Vec<_>>().try_into().unwrap();
    let identity = Identity::from_pem(fs::read(certificate)?, fs::read(key)?);
    let routes = Router::new()
        .route(
            "/test.Echo/Unary",
            post(|request| async {
                Grpc::new(Codec::default()).unary(service_fn(unary), request).await
            }),
        )
        .route(
            "/test.Echo/Streaming",
            post(|request| async {
                Grpc::new(Codec::default()).streaming(service_fn(streaming), request).await
            }),
        );
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse()?)?;
    println!("{}", incoming.local_addr()?.port());
    Server::builder()
        .tls_config(ServerTlsConfig::new().identity(identity))?
        .add_routes(Routes::from(routes))
        .serve_with_incoming(incoming)
        .await?;
    Ok(())
}

async fn unary(request: Request<Message>) -> Result<Response<Message>, Status> {
    Ok(answer(&request).map(|()| request.into_inner()))
}

async fn streaming(
    request: Request<Streaming<Message>>,
) -> Result<Response<Streaming<Message>>, Status> {
    Ok(answer(&request).map(|()| request.into_inner()))
}

/// Returns an answer that repeats the nonce and tells the client; the message is yet to come.
fn answer<T>(request: &Request<T>) -> Response<()> {
    let mut response = Response::new(());
    let metadata = response.metadata_mut();
    if let Some(nonce) = request.metadata().get("x-nonce") {
        metadata.insert("x-nonce", nonce.clone());
    }
    let client = request.remote_addr().unwrap().to_string();
    metadata.insert("x-client", client.parse().unwrap());
    response
}
