use pki_types::pem::PemObject;
use pki_types::{CertificateDer, PrivateKeyDer};

use crate::rustls::{Certificate, ClientConfig, PrivateKey, RootCertStore, ServerConfig};
use crate::versions;

pub fn server(certificate: &str, key: &str) -> ServerConfig {
    let key = PrivateKeyDer::from_pem_file(key).unwrap();
    ServerConfig::builder()
        .with_safe_default_cipher_suites()
        .with_safe_default_kx_groups()
        .with_protocol_versions(versions())
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![read(certificate)], PrivateKey(key.secret_der().to_vec()))
        .unwrap()
}

pub fn client(trusted: &str) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(&read(trusted)).unwrap();
    ClientConfig::builder()
        .with_safe_default_cipher_suites()
        .with_safe_default_kx_groups()
        .with_protocol_versions(versions())
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

fn read(certificate: &str) -> Certificate {
    Certificate(CertificateDer::from_pem_file(certificate).unwrap().to_vec())
}
