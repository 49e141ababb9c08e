//! TLS for clients: what a certificate says, handshakes, and the reload of certificates.
//!
//! A session keeps what it was made with; a handshake takes what is current when it begins. So certificates are
//! replaced without dropping a connection.

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

/// Handshakes at the same time.
const PENDING_MAX: usize = 256;

/// What the doors share that speak TLS.
pub struct Tls {
    current: ArcSwap<Material>,
    pending: Arc<Pending>,
    done: AtomicU64,
    /// In the order of [`Failure::ALL`].
    failed: [AtomicU64; Failure::ALL.len()],
}

impl Tls {
    /// With these certificates.
    pub fn new(material: Material) -> Arc<Self> {
        Arc::new(Self {
            current: ArcSwap::from_pointee(material),
            pending: Pending::new(PENDING_MAX),
            done: AtomicU64::new(0),
            failed: Default::default(),
        })
    }

    /// From now on handshakes are made with `material`.
    pub fn replace(&self, material: Material) {
        self.current.store(Arc::new(material));
    }

    /// When the certificate expires, in seconds since 1970, if it can be told.
    pub fn expires(&self) -> Option<u64> {
        self.current.load().validity.map(|(_, until)| until)
    }

    /// Handshakes that went well.
    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Those that did not, by why.
    pub(crate) fn failed(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Failure::ALL.iter().zip(&self.failed).map(|(why, count)| (why.name(), count.load(Ordering::Relaxed)))
    }

    /// Those under way.
    pub(crate) fn pending(&self) -> usize {
        self.pending.count()
    }

    /// A handshake begins now. With too many others under way the oldest of those ends.
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
