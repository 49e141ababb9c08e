//! TLS for clients: reads certificates, makes handshakes, and reloads certificates.
//!
//! A session keeps the certificates with which it was made; a handshake uses those that are current when it begins. So
//! certificates are replaced without dropping a connection.

mod certificate;
mod failure;
mod handshake;
mod material;
mod pending;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use weir_io::Nanos;

pub use self::certificate::names;
pub(crate) use self::failure::Failure;
pub(crate) use self::handshake::{HANDSHAKE_RECORD, Handshake, Secured};
pub use self::material::{ClientCertificates, Files, Material, Problem};
use self::pending::Pending;

/// How many handshakes may be under way at the same time.
const PENDING_MAX: usize = 256;

/// What all doors that speak TLS share.
pub struct Tls {
    current: ArcSwap<Material>,
    pending: Arc<Pending>,
    done: AtomicU64,
    /// Failed handshakes, in the order of [`Failure::ALL`].
    failed: [AtomicU64; Failure::ALL.len()],
}

impl Tls {
    /// TLS with these certificates.
    pub fn new(material: Material) -> Arc<Self> {
        Arc::new(Self {
            current: ArcSwap::from_pointee(material),
            pending: Pending::new(PENDING_MAX),
            done: AtomicU64::new(0),
            failed: Default::default(),
        })
    }

    /// From now on handshakes use `material`.
    pub fn replace(&self, material: Material) {
        self.current.store(Arc::new(material));
    }

    /// When the certificate expires, in seconds since 1970, if that is known.
    pub fn expires(&self) -> Option<u64> {
        self.current.load().validity.map(|(_, until)| until)
    }

    /// Handshakes that succeeded.
    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Handshakes that failed, by reason.
    pub(crate) fn failed(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Failure::ALL.iter().zip(&self.failed).map(|(why, count)| (why.name(), count.load(Ordering::Relaxed)))
    }

    /// Handshakes under way.
    pub(crate) fn pending(&self) -> usize {
        self.pending.count()
    }

    /// A handshake begins. If too many others are under way, the oldest of them is ended.
    pub(crate) fn begin(self: &Arc<Self>, now: Nanos) -> Handshake {
        Handshake::new(Arc::clone(self), self.pending.enter(), now)
    }

    fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.load().config)
    }

    fn count(&self, failure: Option<Failure>) {
        let count = match failure {
            None => &self.done,
            Some(why) => &self.failed[why as usize],
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}
