//! A reqwest client.
//!
//!     reqwest-client PORT TRUSTED PROTOCOL:COUNT...
//!
//! Makes COUNT requests on each connection, over HTTP/1.1 (PROTOCOL is 1) one after the other,
//! over HTTP/2 (2) all at once, and tells of them.

use std::env;
use std::time::Duration;

use hyper_util::client::legacy::connect::HttpInfo;
use reqwest::Client;
use tokio::task::JoinSet;
use tokio::time::sleep;
use told::Request;

/// A connection returns to the pool in a task of its own; a request before that opens another.
const UNTIL_POOLED: Duration = Duration::from_millis(20);

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [port, trusted, connections @ ..] = &arguments[..] else { panic!("PORT TRUSTED ...") };
    let url = format!("https://localhost:{port}");
    let mut asking = JoinSet::new();
    for connection in connections {
        let (protocol, count) = connection.split_once(':').unwrap();
        let (client, count) = (client(trusted, protocol), count.parse().unwrap());
        if protocol == "2" {
            (0..count).for_each(|_| drop(asking.spawn(ask(client.clone(), url.clone()))));
        } else {
            let url = url.clone();
            asking.spawn(async move {
                for _ in 0..count {
                    ask(client.clone(), url.clone()).await;
                    sleep(UNTIL_POOLED).await;
                }
            });
        }
    }
    asking.join_all().await;
}

/// Returns a client with a connection of its own.
fn client(trusted: &str, protocol: &str) -> Client {
    let mut config = (*tls::client(trusted)).clone();
    let builder = Client::builder().no_proxy();
    let builder = if protocol == "2" {
        config.alpn_protocols = vec![b"h2".to_vec()];
        builder.http2_prior_knowledge()
    } else {
        builder.http1_only()
    };
    builder.use_preconfigured_tls(config).build().unwrap()
}

async fn ask(client: Client, url: String) {
    let request = Request::next();
    let asked = client
        .request(request.method.parse().unwrap(), url + &request.target)
        .header("x-nonce", &request.nonce)
        .body(request.body.clone());
    let answer = asked.send().await.unwrap();
    let protocol = format!("{:?}", answer.version()).to_lowercase();
    let protocol = protocol.replace("/2.0", "/2");
    let status = answer.status().as_u16();
    let ends = answer.extensions().get::<HttpInfo>().unwrap();
    let (from, to) = (ends.local_addr(), ends.remote_addr());
    request.tell(&protocol, status, &answer.bytes().await.unwrap(), from, to);
}
