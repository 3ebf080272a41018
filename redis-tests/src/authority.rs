//! A certificate authority of the test's own.

use crate::redis_server::fresh_directory;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::fs;
use std::path::PathBuf;

/// Issues certificates; its files are removed when the value is dropped.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    root: String,
    directory: PathBuf,
}

/// A certificate and its key, as PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: String,
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    /// Creates an authority with a root of its own.
    ///
    /// # Panics
    ///
    /// If the folder for temporary files cannot be written.
    #[must_use]
    pub fn new() -> Self {
        let directory = fresh_directory();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Roots of one name would be told apart by their signatures only.
        params.distinguished_name.push(DnType::CommonName, directory.display().to_string());
        let key = KeyPair::generate().expect("chance");
        let root = params.self_signed(&key).expect("the parameters are complete").pem();
        Self { issuer: Issuer::new(params, key), root, directory }
    }

    /// Returns the root certificate as PEM.
    #[must_use]
    pub fn root(&self) -> &str {
        &self.root
    }

    /// Issues a certificate for hosts, names or addresses.
    ///
    /// # Panics
    ///
    /// If a name is none.
    #[must_use]
    pub fn issue(&self, names: &[&str]) -> Identity {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let key = KeyPair::generate().expect("chance");
        let params = CertificateParams::new(names).expect("names of hosts");
        let certificate = params.signed_by(&key, &self.issuer).expect("the issuer signs").pem();
        Identity { certificate, key: key.serialize_pem() }
    }

    /// Returns the options of a redis-server with TLS on this port and a certificate for these hosts.
    ///
    /// # Panics
    ///
    /// If the files cannot be written.
    #[must_use]
    pub fn server_options(&self, names: &[&str], port: u16) -> Vec<String> {
        let identity = self.issue(names);
        let file = |kind: &str, text: &str| {
            let path = self.directory.join(format!("{port}-{kind}.pem"));
            fs::write(&path, text).expect("the folder can be written");
            path.display().to_string()
        };
        let options = [
            ("--tls-port", port.to_string()),
            ("--tls-cert-file", file("certificate", &identity.certificate)),
            ("--tls-key-file", file("key", &identity.key)),
            ("--tls-ca-cert-file", file("root", &self.root)),
        ];
        options.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.directory);
    }
}
