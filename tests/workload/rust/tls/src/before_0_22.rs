use std::env;
use std::sync::Arc;

use pki_types::pem::PemObject;
use pki_types::{CertificateDer, PrivateKeyDer};

use crate::rustls::server::{AllowAnyAuthenticatedClient, ResolvesServerCertUsingSni};
use crate::rustls::{Certificate, ClientConfig, PrivateKey, RootCertStore, ServerConfig};
use crate::versions;

pub fn server(certificate: &str, key: &str) -> ServerConfig {
    let key = PrivateKeyDer::from_pem_file(key).unwrap();
    let builder = ServerConfig::builder()
        .with_safe_default_cipher_suites()
        .with_safe_default_kx_groups()
        .with_protocol_versions(versions())
        .unwrap();
    let builder = match env::var("CLIENT_AUTHORITY") {
        Ok(authority) => {
            let verifier = AllowAnyAuthenticatedClient::new(roots(&authority));
            #[cfg(feature = "rustls-0-21")]
            let verifier = verifier.boxed();
            builder.with_client_cert_verifier(verifier)
        }
        Err(_) => builder.with_no_client_auth(),
    };
    if env::var("NO_CERTIFICATE").is_ok() {
        return builder.with_cert_resolver(Arc::new(ResolvesServerCertUsingSni::new()));
    }
    builder
        .with_single_cert(vec![read(certificate)], PrivateKey(key.secret_der().to_vec()))
        .unwrap()
}

pub fn client(trusted: &str) -> ClientConfig {
    ClientConfig::builder()
        .with_safe_default_cipher_suites()
        .with_safe_default_kx_groups()
        .with_protocol_versions(versions())
        .unwrap()
        .with_root_certificates(roots(trusted))
        .with_no_client_auth()
}

fn roots(trusted: &str) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(&read(trusted)).unwrap();
    roots
}

fn read(certificate: &str) -> Certificate {
    Certificate(CertificateDer::from_pem_file(certificate).unwrap().to_vec())
}
