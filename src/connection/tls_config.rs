//! Whom to trust, who is asking, and by what name, when a connection uses TLS.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::config::invalid;
use crate::error::Result;

/// How a connection uses TLS, for [`Config::tls`].
///
/// TLS 1.3 and 1.2 are spoken, by rustls. The server must show a certificate for its name that one of the roots vouches
/// for; by default these are the roots that the platform trusts.
///
/// Certificates and keys are PEM, as bytes or as the name of a file. Files are read once, when the first connection is
/// opened with this value or a clone of it; clones share what was read, and the sessions that make the next handshake
/// shorter. So keep one [`Config`] and open all connections with it.
///
/// `Debug` shows no private key.
///
/// # Examples
///
/// A private authority, and a client certificate, which is what a server with `tls-auth-clients yes` (the default) asks
/// for:
///
/// ```no_run
/// use redefer::{Config, TlsConfig, prelude::*};
///
/// # fn main() -> redefer::Result<()> {
/// let tls = TlsConfig::new()
///     .root_certificates_file("/etc/redis/ca.crt")
///     .client_certificate_files("/etc/redis/client.crt", "/etc/redis/client.key");
/// let conn = Connection::open(Config::from_url("rediss://redis.example:6380/1")?.tls(tls))?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// What is wrong with the configuration itself (a file that can't be read, bytes that are no certificate, a key that
/// belongs to another one) is [`Error::Config`] at [`Connection::open`]. A server whose certificate is not accepted, or
/// that refuses the client's, or that answers something else than TLS, is [`Error::Io`] of the kind
/// [`InvalidData`](std::io::ErrorKind::InvalidData), with the reason in its text; other addresses of the same host are
/// not tried then. A Redis port without TLS answers nothing to a client that begins with TLS: that is, after
/// [`Config::connect_timeout`](crate::Config::connect_timeout), [`Error::Io`] of the kind
/// [`TimedOut`](std::io::ErrorKind::TimedOut), whose text asks whether the port speaks TLS.
///
/// [`Config`]: crate::Config
/// [`Config::tls`]: crate::Config::tls
/// [`Connection::open`]: crate::Connection::open
/// [`Error::Config`]: crate::Error::Config
/// [`Error::Io`]: crate::Error::Io
#[derive(Clone, Default)]
pub struct TlsConfig {
    /// None: those of the platform.
    roots: Vec<Pem>,
    /// The chain and the private key.
    identity: Option<(Pem, Pem)>,
    server_name: Option<String>,
    unverified: bool,
    ready: Option<Arc<ClientConfig>>,
    /// What all this came to. Shared by clones, and so begun anew by each change.
    built: Arc<OnceLock<Arc<ClientConfig>>>,
}

/// Where PEM is.
#[derive(Clone)]
enum Pem {
    Bytes(Arc<[u8]>),
    File(PathBuf),
}

impl TlsConfig {
    /// TLS with the roots that the platform trusts, and no client certificate.
    ///
    /// On unix systems the environment variables `SSL_CERT_FILE` and `SSL_CERT_DIR` choose other roots.
    pub fn new() -> Self {
        TlsConfig::default()
    }

    /// Trusts these certificates, in PEM, instead of the platform's. May be called again for more.
    ///
    /// These are authorities, which vouch for the server's certificate. A server's own certificate does here only if it
    /// does not say that it is an authority itself, as those made by a plain `openssl req -x509` do.
    #[must_use]
    pub fn root_certificates(mut self, pem: impl AsRef<[u8]>) -> Self {
        self.roots.push(Pem::Bytes(pem.as_ref().into()));
        self.changed()
    }

    /// Trusts the certificates in this PEM file instead of the platform's: see
    /// [`root_certificates`](TlsConfig::root_certificates).
    #[must_use]
    pub fn root_certificates_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.roots.push(Pem::File(path.into()));
        self.changed()
    }

    /// The certificate to show to a server that asks for one, and its private key, both in PEM.
    ///
    /// Intermediate certificates follow the client's own. The key may be PKCS#8, PKCS#1 (RSA) or SEC1 (EC), and not
    /// encrypted. Defaults to none.
    #[must_use]
    pub fn client_certificate(mut self, chain: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Self {
        self.identity = Some((Pem::Bytes(chain.as_ref().into()), Pem::Bytes(key.as_ref().into())));
        self.changed()
    }

    /// The files of the certificate to show to a server that asks for one, and of its private key: see
    /// [`client_certificate`](TlsConfig::client_certificate).
    #[must_use]
    pub fn client_certificate_files(mut self, chain: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.identity = Some((Pem::File(chain.into()), Pem::File(key.into())));
        self.changed()
    }

    /// The name that the server's certificate must be for, and that is sent to the server (SNI); it may be an IP
    /// address, which is not sent.
    ///
    /// For a server that is reached by another name than its own, through a tunnel for example. Defaults to the host that
    /// is connected to.
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Accepts whatever certificate the server shows: **anybody on the way can read and change everything, passwords
    /// included**. For experiments only.
    #[must_use]
    pub fn danger_accept_invalid_certificates(mut self) -> Self {
        self.unverified = true;
        self.changed()
    }

    fn changed(mut self) -> Self {
        self.built = Arc::default();
        self
    }

    /// The name that a server at this host has to have.
    pub(super) fn name_of(&self, host: &str) -> Result<ServerName<'static>> {
        let name = self.server_name.as_deref().unwrap_or(host);
        // An address has its zone only on this side, and a name its last dot only for the resolver.
        let name = name.split('%').next().unwrap_or(name);
        let name = name.strip_suffix('.').unwrap_or(name);
        ServerName::try_from(name.to_owned())
            .map_err(|_| invalid("the server's name is neither a DNS name, as TLS needs it, nor an IP address"))
    }

    /// What rustls makes of this, once for all clones.
    pub(super) fn client_config(&self) -> Result<Arc<ClientConfig>> {
        if let Some(built) = self.built.get() {
            return Ok(Arc::clone(built));
        }
        let built = self.build()?;
        // Another thread may have been faster.
        Ok(Arc::clone(self.built.get_or_init(|| built)))
    }

    fn build(&self) -> Result<Arc<ClientConfig>> {
        if let Some(ready) = &self.ready {
            if self.unverified || self.identity.is_some() || !self.roots.is_empty() {
                return Err(invalid("a `rustls::ClientConfig` brings its own roots and certificates: set them there"));
            }
            return Ok(Arc::clone(ready));
        }
        // The application may have its own idea of cryptography.
        let provider = CryptoProvider::get_default().cloned().unwrap_or_else(|| Arc::new(ring::default_provider()));
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| invalid(format!("TLS: {error}")))?;
        let builder = if self.unverified {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Unverified(provider)))
        } else {
            builder.with_root_certificates(self.root_store()?)
        };
        let config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder
                .with_client_auth_cert(chain.certificates("the client certificate")?, key.private_key()?)
                .map_err(|error| invalid(format!("the client certificate and its key cannot be used: {error}")))?,
        };
        Ok(Arc::new(config))
    }

    fn root_store(&self) -> Result<RootCertStore> {
        let mut store = RootCertStore::empty();
        for pem in &self.roots {
            for certificate in pem.certificates("the root certificates")? {
                store
                    .add(certificate)
                    .map_err(|error| invalid(format!("a root certificate cannot be used: {error}")))?;
            }
        }
        if self.roots.is_empty() {
            let found = rustls_native_certs::load_native_certs();
            // Platforms have odd ones among theirs.
            store.add_parsable_certificates(found.certs);
            if store.is_empty() {
                let why = found.errors.first().map_or(String::new(), |error| format!(": {error}"));
                return Err(invalid(format!("the platform has no root certificates for TLS{why}")));
            }
        }
        Ok(store)
    }
}

impl From<Arc<ClientConfig>> for TlsConfig {
    /// TLS with a configuration made with rustls, for whatever this type has no method for. Its roots and certificates
    /// are taken as they are; only [`server_name`](TlsConfig::server_name) can be set besides.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use redefer::rustls::crypto::ring;
    /// use redefer::rustls::{ClientConfig, RootCertStore, version::TLS13};
    /// use redefer::{Config, TlsConfig};
    ///
    /// # fn main() -> Result<(), redefer::rustls::Error> {
    /// let only_tls13 = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
    ///     .with_protocol_versions(&[&TLS13])?
    ///     .with_root_certificates(RootCertStore::empty())
    ///     .with_no_client_auth();
    /// let config = Config::tcp("redis.example", 6379).tls(TlsConfig::from(Arc::new(only_tls13)));
    /// # Ok(())
    /// # }
    /// ```
    fn from(config: Arc<ClientConfig>) -> Self {
        TlsConfig { ready: Some(config), ..TlsConfig::default() }
    }
}

impl fmt::Debug for TlsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TlsConfig { roots, identity, server_name, unverified, ready, built: _ } = self;
        let mut out = f.debug_struct("TlsConfig");
        match ready {
            Some(_) => out.field("client_config", &format_args!("rustls::ClientConfig")),
            None if roots.is_empty() => out.field("root_certificates", &format_args!("of the platform")),
            None => out.field("root_certificates", roots),
        };
        let identity = identity.as_ref().map(|(chain, key)| {
            // The name of a key's file is no secret.
            (chain, if let Pem::File(path) = key { path.as_path() } else { Path::new("***") })
        });
        out.field("client_certificate", &identity)
            .field("server_name", server_name)
            .field("danger_accept_invalid_certificates", unverified)
            .finish()
    }
}

impl Pem {
    fn certificates(&self, what: &str) -> Result<Vec<CertificateDer<'static>>> {
        let bytes = self.bytes(what)?;
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
        match certificates {
            Ok(certificates) if certificates.is_empty() => Err(invalid(format!("{what}{self}: no certificate in PEM"))),
            Ok(certificates) => Ok(certificates),
            // Without the error's text, which repeats lines: it may be the file of a key.
            Err(_) => Err(invalid(format!("{what}{self}: malformed PEM"))),
        }
    }

    fn private_key(&self) -> Result<PrivateKeyDer<'static>> {
        let what = "the client's private key";
        PrivateKeyDer::from_pem_slice(&self.bytes(what)?)
            .map_err(|_| invalid(format!("{what}{self}: no private key in PEM, or an encrypted one")))
    }

    fn bytes(&self, what: &str) -> Result<Arc<[u8]>> {
        match self {
            Pem::Bytes(bytes) => Ok(Arc::clone(bytes)),
            Pem::File(path) => match std::fs::read(path) {
                Ok(bytes) => Ok(bytes.into()),
                Err(error) => Err(invalid(format!("{what}{self}: {error}"))),
            },
        }
    }
}

/// Where it is, as it follows what it is.
impl fmt::Display for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pem::Bytes(_) => Ok(()),
            Pem::File(path) => write!(f, " in {}", path.display()),
        }
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pem::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Pem::File(path) => path.fmt(f),
        }
    }
}

/// Takes every certificate; only that the server has its key is still looked at.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn root() -> String {
        let key = KeyPair::generate().unwrap();
        CertificateParams::new(vec!["server".into()]).unwrap().self_signed(&key).unwrap().pem()
    }

    #[test]
    fn clones_share_what_was_built_until_they_are_changed() {
        let tls = TlsConfig::new().root_certificates(root());
        let clone = tls.clone();
        let built = tls.client_config().unwrap();
        assert!(Arc::ptr_eq(&built, &clone.client_config().unwrap()));
        // Another name is not another configuration: it is told to each connection.
        assert!(Arc::ptr_eq(&built, &clone.clone().server_name("name").client_config().unwrap()));
        for changed in [clone.clone().root_certificates(root()), clone.danger_accept_invalid_certificates()] {
            assert!(!Arc::ptr_eq(&built, &changed.client_config().unwrap()));
            assert!(Arc::ptr_eq(&built, &tls.client_config().unwrap()));
        }
    }

    #[test]
    fn a_configuration_of_rustls_is_taken_as_it_is() {
        let ready = TlsConfig::new().root_certificates(root()).client_config().unwrap();
        let tls = TlsConfig::from(Arc::clone(&ready)).server_name("name");
        assert!(Arc::ptr_eq(&ready, &tls.client_config().unwrap()));
        assert!(tls.danger_accept_invalid_certificates().client_config().is_err());
    }

    #[test]
    fn the_name_is_the_host_without_what_certificates_do_not_have() {
        let name = |host: &str| TlsConfig::new().name_of(host).map(|name| name.to_str().into_owned());
        for (host, expected) in [
            ("redis.example", "redis.example"),
            ("under_score.local.", "under_score.local"),
            ("10.0.0.1", "10.0.0.1"),
            ("::1", "::1"),
            ("fe80::1%eth0", "fe80::1"),
        ] {
            assert_eq!(name(host).unwrap(), expected);
        }
        for host in ["", ".", "a..b", "b\u{fc}cher", "a b"] {
            assert!(name(host).is_err(), "{host:?}");
        }
        assert_eq!(TlsConfig::new().server_name("other").name_of("b\u{fc}cher").unwrap().to_str(), "other");
    }
}
