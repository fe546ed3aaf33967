use std::env;
use std::sync::Arc;

use pki_types::pem::PemObject;
use pki_types::{CertificateDer, PrivateKeyDer};

#[cfg(any(feature = "rustls-0-22-aws-lc-rs", feature = "rustls-0-23-aws-lc-rs"))]
use crate::rustls::crypto::aws_lc_rs::default_provider;
#[cfg(any(feature = "rustls-0-22-ring", feature = "rustls-0-23-ring"))]
use crate::rustls::crypto::ring::default_provider;
use crate::rustls::server::{ResolvesServerCertUsingSni, WebPkiClientVerifier};
use crate::rustls::{ClientConfig, RootCertStore, ServerConfig};
use crate::versions;

pub fn server(certificate: &str, key: &str) -> ServerConfig {
    let provider = Arc::new(default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions())
        .unwrap();
    let builder = match env::var("CLIENT_AUTHORITY") {
        Ok(authority) => builder.with_client_cert_verifier(
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots(&authority)), provider)
                .build()
                .unwrap(),
        ),
        Err(_) => builder.with_no_client_auth(),
    };
    if env::var("NO_CERTIFICATE").is_ok() {
        return builder.with_cert_resolver(Arc::new(ResolvesServerCertUsingSni::new()));
    }
    builder
        .with_single_cert(
            vec![CertificateDer::from_pem_file(certificate).unwrap()],
            PrivateKeyDer::from_pem_file(key).unwrap(),
        )
        .unwrap()
}

pub fn client(trusted: &str) -> ClientConfig {
    ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(versions())
        .unwrap()
        .with_root_certificates(roots(trusted))
        .with_no_client_auth()
}

fn roots(trusted: &str) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(trusted).unwrap()).unwrap();
    roots
}
