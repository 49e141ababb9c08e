//! What handshakes are made with, out of the operator's files.

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
    /// They are not asked.
    #[default]
    Off,
    /// Those who have one do.
    Optional,
    /// All do, or are not let in.
    Required,
}

/// The bytes of the files, in PEM.
pub struct Files {
    /// The server's certificate, and those between it and an authority that clients trust.
    pub certificate: Vec<u8>,
    /// Its private key.
    pub key: Vec<u8>,
    /// The authorities whose clients are trusted.
    pub client_ca: Option<Vec<u8>>,
}

/// What is wrong with which file, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The certificate.
    Certificate(String),
    /// The key.
    Key(String),
    /// The authorities.
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

/// See the module.
pub struct Material {
    pub(super) config: Arc<ServerConfig>,
    /// From when to when the certificate holds, in seconds since 1970, if it can be told.
    pub(super) validity: Option<(u64, u64)>,
}

/// A certificate that expires so soon is warned about.
const SOON_SECONDS: u64 = 14 * 86_400;

impl Material {
    /// Reads `files`. Certificates are judged by `clock`.
    ///
    /// # Errors
    /// One of them cannot be used.
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
            (_, None) => return Err(Problem::ClientCa("no file is named".to_owned())),
            (_, Some(authorities)) => {
                let mut roots = RootCertStore::empty();
                for authority in certificates(authorities).map_err(Problem::ClientCa)? {
                    roots
                        .add(authority)
                        .map_err(|error| Problem::ClientCa(format!("it holds no authority: {error}")))?;
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
            // A session that is resumed would not be asked for its certificate again, which may have expired.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(Self { config: Arc::new(config), validity })
    }

    /// What about its certificate an operator should know, `second` seconds after 1970.
    pub fn warning(&self, second: u64) -> Option<String> {
        match self.validity {
            None => Some("when it expires cannot be told".to_owned()),
            Some((_, until)) if until <= second => Some("it has EXPIRED, clients refuse it: renew it".to_owned()),
            Some((from, _)) if from > second => {
                Some("it does not hold yet, clients refuse it: is the clock of this machine right?".to_owned())
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
        Ok(all) if all.is_empty() => Err("it holds no certificate in PEM (-----BEGIN CERTIFICATE-----)".to_owned()),
        Ok(all) => Ok(all),
        Err(error) => Err(format!("it is no PEM: {error}")),
    }
}

fn no_key(pem: &[u8], error: pem::Error) -> String {
    let is_encrypted = pem.windows(9).any(|part| part == b"ENCRYPTED");
    match error {
        _ if is_encrypted => {
            "the key is encrypted, and nobody is there to give the password: store it without (openssl pkey -in FILE)"
                .to_owned()
        }
        pem::Error::NoItemsFound => "it holds no private key in PEM (-----BEGIN PRIVATE KEY-----)".to_owned(),
        error => format!("it is no PEM: {error}"),
    }
}

fn unusable(error: Error) -> Problem {
    match error {
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            Problem::Key("it is not the key of the certificate: they must be of one pair".to_owned())
        }
        Error::InvalidCertificate(error) => Problem::Certificate(format!("it cannot be used: {error}")),
        error => Problem::Key(format!("it cannot be used: {error}")),
    }
}

/// Time as it was handed in.
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
