//! The certificates of `tls_listen`: read at the start, at SIGHUP, and when their files have changed. If the files
//! cannot be used at the start, the server does not start; later it goes on with the certificates that it has.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use weir_gateway::tls::{ClientCertificates, Files, Material, Problem, Tls};
use weir_io::{Clock, Nanos, sleep_until};

use super::Outcome;
use super::config::Config;

/// Time between two looks whether the files have changed.
const LOOK_NANOS: Nanos = 10_000_000_000;
/// More bytes than any certificate has; a longer file is taken for a mistake.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The certificate files of the configuration, and what handshakes are made with now.
pub struct Certificates {
    paths: Paths,
    clients: ClientCertificates,
    clock: Arc<dyn Clock>,
    tls: Arc<Tls>,
    changes: Mutex<Changes<Stamps>>,
}

struct Paths {
    certificate: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
}

/// For each file, the facts that differ once it was written or replaced; `None` if there is no such file.
type Stamps = [Option<(u64, u64, i64, i64)>; 3];

impl Certificates {
    /// The certificates that `config` names. Call it only if `tls_listen` is on.
    ///
    /// # Errors
    /// One of the files cannot be used.
    pub fn load(config: &Config, clock: Arc<dyn Clock>) -> Outcome<Arc<Self>> {
        let clients = config.tls_client_certificates.in_gateway();
        let client_ca = Some(config.tls_client_ca.clone()).filter(|_| clients != ClientCertificates::Off);
        let paths = Paths { certificate: config.tls_certificate.clone(), key: config.tls_key.clone(), client_ca };
        let changes = Mutex::new(Changes::new(paths.stamps()));
        let material = paths.read(clients, &clock)?;
        tell(paths.warning(&material, &clock));
        Ok(Arc::new(Self { paths, clients, clock, tls: Tls::new(material), changes }))
    }

    /// The TLS state that the doors share.
    pub fn tls(&self) -> &Arc<Tls> {
        &self.tls
    }

    /// Whether no client is let in without a certificate.
    pub fn are_required(&self) -> bool {
        self.clients == ClientCertificates::Required
    }

    /// Reads the files again. New connections get the new certificates; if the files cannot be used, the old ones.
    pub fn reload(&self, because: &str) {
        self.changes.lock().read(self.paths.stamps());
        let certificate = self.paths.certificate.display();
        match self.paths.read(self.clients, &self.clock) {
            Ok(material) => {
                let warning = self.paths.warning(&material, &self.clock);
                self.tls.replace(material);
                tracing::info!(%certificate, because, "new TLS connections get the certificate that was read again");
                tell(warning);
            }
            Err(error) => tracing::error!(
                because,
                "{error}\n  New TLS connections get the certificate that was read before, and a restart would fail: mend the file"
            ),
        }
    }

    /// Reads the files again whenever they have changed, until `certificates` is dropped.
    pub async fn watch(certificates: Weak<Self>) {
        loop {
            let Some(clock) = certificates.upgrade().map(|it| Arc::clone(&it.clock)) else { return };
            sleep_until(&clock, clock.now() + LOOK_NANOS).await;
            let Some(certificates) = certificates.upgrade() else { return };
            let stamps = certificates.paths.stamps();
            let is_due = certificates.changes.lock().look(stamps);
            if is_due {
                certificates.reload("the files have changed");
            }
        }
    }
}

impl Paths {
    /// Reads what handshakes are made with. The error says which file is wrong, and what to do.
    fn read(&self, clients: ClientCertificates, clock: &Arc<dyn Clock>) -> Result<Material, String> {
        let files = Files {
            certificate: read("tls_certificate", &self.certificate)?,
            key: read("tls_key", &self.key)?,
            client_ca: self.client_ca.as_ref().map(|path| read("tls_client_ca", path)).transpose()?,
        };
        Material::new(&files, clients, Arc::clone(clock)).map_err(|problem| {
            let words = problem.words();
            match (&problem, &self.client_ca) {
                (Problem::ClientCa(_), Some(path)) => format!("tls_client_ca {}: {words}", path.display()),
                (Problem::Key(_), _) => {
                    format!(
                        "tls_key {}: {words} (tls_certificate is {})",
                        self.key.display(),
                        self.certificate.display()
                    )
                }
                _ => format!("tls_certificate {}: {words}", self.certificate.display()),
            }
        })
    }

    fn warning(&self, material: &Material, clock: &Arc<dyn Clock>) -> Option<String> {
        let warning = material.warning(clock.unix_ms() / 1000)?;
        Some(format!("tls_certificate {}: {warning}", self.certificate.display()))
    }

    fn stamps(&self) -> Stamps {
        [Some(&self.certificate), Some(&self.key), self.client_ca.as_ref()]
            .map(|path| path.and_then(|path| stamp(path)))
    }
}

fn tell(warning: Option<String>) {
    if let Some(warning) = warning {
        tracing::warn!("{warning}");
    }
}

#[allow(clippy::disallowed_methods, reason = "the operator's file, no data of a node")]
fn stamp(path: &Path) -> Option<(u64, u64, i64, i64)> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
}

#[allow(clippy::disallowed_methods, reason = "the operator's file, no data of a node")]
fn read(setting: &str, path: &Path) -> Result<Vec<u8>, String> {
    let name = path.display();
    let metadata = fs::metadata(path).map_err(|error| unreadable(setting, path, &error))?;
    if metadata.len() > FILE_BYTES_MAX {
        return Err(format!("{setting} {name}: it has {} bytes, no certificate or key is so long", metadata.len()));
    }
    fs::read(path).map_err(|error| unreadable(setting, path, &error))
}

fn unreadable(setting: &str, path: &Path, error: &io::Error) -> String {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "name a file that is there, by its whole path",
        io::ErrorKind::PermissionDenied => "let the user that runs weir read it",
        _ => "name a file that can be read",
    };
    format!("{setting} {}: {error}: {hint}", path.display())
}

/// Decides when something that changes is to be read again: not while it is still changing, and once for each change,
/// also if that reading failed.
struct Changes<T> {
    read: T,
    last: T,
}

impl<T: Copy + PartialEq> Changes<T> {
    /// It was read in the state `now`.
    fn new(now: T) -> Self {
        Self { read: now, last: now }
    }

    /// Whether it is to be read again, given its state `now`.
    fn look(&mut self, now: T) -> bool {
        let is_still = now == self.last;
        self.last = now;
        is_still && now != self.read
    }

    /// To be called just before it is read, in the state `now`.
    fn read(&mut self, now: T) {
        (self.read, self.last) = (now, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_changed_is_read_once_when_it_stands_still() {
        let mut changes = Changes::new(1);
        assert!(!changes.look(1) && !changes.look(1));
        assert!(!changes.look(2), "the other file may be written just now");
        assert!(!changes.look(3));
        assert!(changes.look(3));
        changes.read(3);
        assert!(!changes.look(3), "whether it could be used or not");
        assert!(!changes.look(1) && changes.look(1));
    }
}
