//! SIGHUP: the configuration file is read again, and the log says what a restart would change. Certificates are read
//! again, too, and new connections get them.
//!
//! No setting changes while the server runs, so nothing is applied. Only settings of tenants can be altered live, with
//! `weir tenant alter`. But an operator learns that the file is sound before a restart depends on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_io::Event;

use super::Serve;
use super::certificates::Certificates;
use super::config::Config;

/// The configuration that the server runs under, and where it came from.
pub struct Reload {
    serve: Serve,
    running: Config,
    certificates: Option<Arc<Certificates>>,
    /// The files are to be read again.
    is_asked: AtomicBool,
    asked: Event,
}

impl Reload {
    /// For a server that was started with the arguments `serve`, and runs under `running`.
    pub fn new(serve: Serve, running: Config) -> Self {
        Self { serve, running, certificates: None, is_asked: AtomicBool::new(false), asked: Event::default() }
    }

    /// Adds the certificates that are read again, too.
    pub fn with(self, certificates: Option<Arc<Certificates>>) -> Self {
        Self { certificates, ..self }
    }

    /// Asks for the files to be read again, without waiting for it. If they are being read at this moment, they are
    /// read once more afterwards.
    pub fn ask(&self) {
        self.is_asked.store(true, Ordering::Release);
        self.asked.notify();
    }

    /// Reads the files each time that [`Reload::ask`] was called, on the thread that polls this.
    pub async fn run(self: Arc<Self>) {
        loop {
            self.asked.wait(|| self.is_asked.swap(false, Ordering::Acquire).then_some(())).await;
            self.read();
        }
    }

    /// Reads the files again, and says in the log what a restart would change.
    fn read(&self) {
        if let Some(certificates) = &self.certificates {
            certificates.reload("SIGHUP");
        }
        let Some(file) = &self.serve.config else {
            tracing::info!("SIGHUP: there is no configuration file (--config) to read again, nothing changes");
            return;
        };
        let file = file.display();
        match self.serve.config() {
            Err(error) => {
                tracing::error!(%file, %error, "SIGHUP: the configuration file cannot be used, and a restart would fail: mend it. The server goes on as it is");
            }
            Ok(config) => match self.running.changes(&config) {
                changes if changes.is_empty() => {
                    tracing::info!(%file, "SIGHUP: read the configuration file again, it says what the server runs under");
                }
                changes => {
                    let changes = changes.join(", ");
                    tracing::warn!(%file, changes, "SIGHUP: read the configuration file again; these settings take effect at a restart");
                    config.warn();
                }
            },
        }
    }
}
