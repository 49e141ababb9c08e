//! The certificates and keys that handshakes use, read from the operator's files.

use std::fmt;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::time_provider::TimeProvider;
use rustls::{Error, InconsistentKeys, RootCertStore, ServerConfig};
use weir_io::Clock;

use super::certificate::validity;

/// Whether clients show certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Clients are not asked for one.
    #[default]
    Off,
    /// Clients that have one show it.
    Optional,
    /// Clients that show none are not let in.
    Required,
}

/// The bytes of the files, in PEM.
pub struct Files {
    /// The server's certificate, followed by those between it and an authority that clients trust.
    pub certificate: Vec<u8>,
    /// The private key of the server's certificate.
    pub key: Vec<u8>,
    /// The authorities whose clients are trusted.
    pub client_ca: Option<Vec<u8>>,
}

/// Which file cannot be used, why not, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The file of the certificate.
    Certificate(String),
    /// The file of the key.
    Key(String),
    /// The file of the authorities.
    ClientCa(String),
}

impl Problem {
    /// What is wrong, in words.
    pub fn words(&self) -> &str {
        match self {
            Problem::Certificate(words) | Problem::Key(words) | Problem::ClientCa(words) => words,
        }
    }
}

/// The certificates and keys in a form that handshakes can use.
pub struct Material {
    pub(super) config: Arc<ServerConfig>,
    /// From when to when the certificate is valid, in seconds since 1970, if that is known.
    pub(super) validity: Option<(u64, u64)>,
}

/// A certificate that expires within this time is warned about.
const SOON_SECONDS: u64 = 14 * 86_400;

impl Material {
    /// Reads `files`. Certificates are judged by the time of `clock`.
    ///
    /// # Errors
    /// One of the files cannot be used.
    pub fn new(files: &Files, clients: ClientCertificates, clock: Arc<dyn Clock>) -> Result<Self, Problem> {
        let provider = Arc::new(ring::default_provider());
        let chain = certificates(&files.certificate).map_err(Problem::Certificate)?;
        let validity = chain.first().and_then(|first| validity(first));
        let key = PrivateKeyDer::from_pem_slice(&files.key).map_err(|error| Problem::Key(no_key(&files.key, error)))?;
        let builder = ServerConfig::builder_with_details(Arc::clone(&provider), Arc::new(HandedTime(clock)))
            .with_safe_default_protocol_versions()
            .map_err(|error| Problem::Certificate(format!("TLS cannot be set up: {error}")))?;
        let builder = match (clients, &files.client_ca) {
            (ClientCertificates::Off, _) => builder.with_no_client_auth(),
            (_, None) => return Err(Problem::ClientCa("no file is configured".to_owned())),
            (_, Some(authorities)) => {
                let mut roots = RootCertStore::empty();
                for authority in certificates(authorities).map_err(Problem::ClientCa)? {
                    roots.add(authority).map_err(|error| {
                        Problem::ClientCa(format!(
                            "it contains a certificate that cannot be used as an authority: {error}"
                        ))
                    })?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = match clients {
                    ClientCertificates::Required => verifier,
                    _ => verifier.allow_unauthenticated(),
                };
                let verifier = verifier.build().map_err(|error| Problem::ClientCa(error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_single_cert(chain, key).map_err(unusable)?;
        if clients == ClientCertificates::Off {
            config.ticketer = ring::Ticketer::new()
                .map_err(|error| Problem::Certificate(format!("TLS cannot be set up: {error}")))?;
        } else {
            // A resumed session would not be asked for its certificate again, which may have expired meanwhile.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(Self { config: Arc::new(config), validity })
    }

    /// What an operator should know about the certificate, `second` seconds after 1970.
    pub fn warning(&self, second: u64) -> Option<String> {
        match self.validity {
            None => Some("its expiry date cannot be read".to_owned()),
            Some((_, until)) if until <= second => Some("it has EXPIRED, and clients refuse it: renew it".to_owned()),
            Some((from, _)) if from > second => {
                Some("it is not valid yet, and clients refuse it: check the clock of this machine".to_owned())
            }
            Some((_, until)) if until - second < SOON_SECONDS => {
                Some(format!("it expires in {} days: renew it", (until - second) / 86_400))
            }
            Some(_) => None,
        }
    }
}

/// All certificates in a file: at least one.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if all.is_empty() => Err("it contains no certificate in PEM (-----BEGIN CERTIFICATE-----)".to_owned()),
        Ok(all) => Ok(all),
        Err(error) => Err(format!("it is not valid PEM: {error}")),
    }
}

fn no_key(pem: &[u8], error: pem::Error) -> String {
    let is_encrypted = pem.windows(9).any(|part| part == b"ENCRYPTED");
    match error {
        _ if is_encrypted => {
            "the key is encrypted, but the server cannot ask for a password: store the key without one (openssl pkey \
             -in FILE)"
                .to_owned()
        }
        pem::Error::NoItemsFound => "it contains no private key in PEM (-----BEGIN PRIVATE KEY-----)".to_owned(),
        error => format!("it is not valid PEM: {error}"),
    }
}

fn unusable(error: Error) -> Problem {
    match error {
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            Problem::Key("it is not the key of the certificate: the two must be a pair".to_owned())
        }
        Error::InvalidCertificate(error) => Problem::Certificate(format!("it cannot be used: {error}")),
        error => Problem::Key(format!("it cannot be used: {error}")),
    }
}

/// The time of the clock that was handed in.
struct HandedTime(Arc<dyn Clock>);

impl fmt::Debug for HandedTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HandedTime")
    }
}

impl TimeProvider for HandedTime {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(std::time::Duration::from_millis(self.0.unix_ms())))
    }
}
