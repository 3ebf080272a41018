//! The certificates and the cryptography of connections with TLS.

use crate::limiter::RedisLimiterError;
use redis::cluster::ClusterClientBuilder;
use redis::{Client, ClientTlsConfig, ConnectionInfo, RedisResult, TlsCertificates};
use rustls::RootCertStore;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::sync::Arc;

/// The settings, as the builder and errors name them.
const ROOTS: &str = "root_certificates";
const OWN: &str = "client_certificate";

/// The certificates of connections with TLS, as PEM.
#[derive(Clone, Default)]
pub(crate) struct Certificates {
    /// The roots to trust. If there are none, the compiled-in roots of Mozilla are trusted.
    roots: Option<Vec<u8>>,
    /// The certificate of this program, and its key.
    own: Option<ClientTlsConfig>,
}

impl Certificates {
    pub(crate) fn set_roots(&mut self, pem: Vec<u8>) {
        self.roots = Some(pem);
    }

    pub(crate) fn set_own(&mut self, certificate: Vec<u8>, key: Vec<u8>) {
        self.own = Some(ClientTlsConfig { client_cert: certificate, client_key: key });
    }

    /// Returns an error unless connections can be made with these certificates.
    ///
    /// The redis crate accepts a PEM without a certificate, and notices a key of another certificate only when it connects.
    pub(super) fn check(&self) -> Result<(), RedisLimiterError> {
        if let Some(pem) = &self.roots {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(ROOTS, pem)? {
                roots.add(certificate).map_err(|error| unusable(ROOTS, &error))?;
            }
        }
        if let Some(ClientTlsConfig { client_cert, client_key }) = &self.own {
            let chain = certificates(OWN, client_cert)?;
            let key = PrivateKeyDer::from_pem_slice(client_key).map_err(|error| match error {
                pem::Error::NoItemsFound => {
                    unusable(OWN, &"the PEM of the key has no private key without a passphrase")
                }
                error => unusable(OWN, &flaw(&error)),
            })?;
            CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
                rustls::Error::InconsistentKeys(_) => unusable(OWN, &"the key is that of another certificate"),
                error => unusable(OWN, &error),
            })?;
        }
        Ok(())
    }

    pub(super) fn client(&self, information: ConnectionInfo) -> RedisResult<Client> {
        Client::build_with_tls(information, self.for_client())
    }

    pub(super) fn of_cluster(&self, builder: ClusterClientBuilder) -> ClusterClientBuilder {
        builder.certs(self.for_client())
    }

    fn for_client(&self) -> TlsCertificates {
        TlsCertificates { client_tls: self.own.clone(), root_cert: self.roots.clone() }
    }
}

/// Makes sure that the process has a provider of cryptography.
///
/// The redis crate uses the process's provider. Without one, rustls panics in a program into which two are compiled.
pub(super) fn provide_cryptography() {
    if CryptoProvider::get_default().is_none() {
        // On an error another thread was first, and its choice is as good.
        _ = ring::default_provider().install_default();
    }
}

/// Returns the process's provider of cryptography, or the one that it will have.
fn provider() -> Arc<CryptoProvider> {
    CryptoProvider::get_default().cloned().unwrap_or_else(|| Arc::new(ring::default_provider()))
}

/// Returns the certificates of a PEM, of which there must be at least one.
fn certificates(setting: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, RedisLimiterError> {
    let certificates = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| unusable(setting, &flaw(&error)))?;
    if certificates.is_empty() {
        return Err(unusable(setting, &"the PEM has no certificate"));
    }
    Ok(certificates)
}

/// Names the flaw of a PEM without showing a part of it, which can be a key.
fn flaw(error: &pem::Error) -> &'static str {
    match error {
        pem::Error::MissingSectionEnd { .. } => "a section of the PEM has no line that ends it",
        pem::Error::IllegalSectionStart { .. } => "a section of the PEM has no line that begins it",
        pem::Error::Base64Decode(_) => "a section of the PEM is not base64",
        _ => "the PEM cannot be read",
    }
}

fn unusable(setting: &'static str, reason: &dyn ToString) -> RedisLimiterError {
    RedisLimiterError::Certificate { setting, reason: reason.to_string() }
}
