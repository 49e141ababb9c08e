//! The doorman of a node with tenants: names from a directory, secrets checked, guesses slowed down.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hmac::Mac;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use weir_io::{Clock, Spawn};
use zeroize::Zeroizing;

use super::{Checking, Doorman, Grant, Refusal, secret};
use crate::store::Store;

/// Slow checks that wait at the same time; each takes 10 to 30 ms.
const WAITING_MAX: usize = 64;
/// Wrong secrets from one address before it must wait.
const FAILURES_FREE: u32 = 10;
/// The longest wait, and how long failures are remembered.
const BACK_OFF_MAX_NANOS: u64 = 60_000_000_000;
const SECOND_NANOS: u64 = 1_000_000_000;
/// Addresses remembered; beyond it the one whose wait ends first is forgotten.
const ADDRESSES_MAX: usize = 16 << 10;
/// Verified secrets remembered, one for each tenant.
const VERIFIED_MAX: usize = 64 << 10;

/// Who there is.
pub trait Directory<S>: Send + Sync + 'static {
    /// The tenant called `name`, and its stored secret if it has one.
    fn find(&self, name: &str) -> Option<(Grant<S>, Option<Vec<u8>>)>;
}

/// See the module.
///
/// - The tenant `default` needs no secret as long as it has none, but only from this machine, unless `insecure`.
/// - A secret that was right once is remembered by a keyed hash, under a key of this process: clients that reconnect
///   cost microseconds. An altered secret is another, so what is remembered of the old one fits no more.
/// - After ten wrong secrets an address waits, up to a minute; other addresses do not, and neither does who brings a
///   secret that was right before: a guesser cannot lock the owner out.
pub struct Secrets<S, D> {
    directory: D,
    clock: Arc<dyn Clock>,
    /// Where slow checks run.
    spawn: Arc<dyn Spawn>,
    insecure: bool,
    key: [u8; 32],
    waiting: AtomicUsize,
    verified: Mutex<BTreeMap<u32, [u8; 32]>>,
    failures: Mutex<BTreeMap<IpAddr, Failures>>,
    store: std::marker::PhantomData<fn() -> S>,
}

/// Wrong secrets from one address.
#[derive(Clone, Copy)]
struct Failures {
    count: u32,
    /// Nothing is looked at before.
    until: u64,
    /// When the last was.
    last: u64,
}

impl<S: Store, D: Directory<S>> Secrets<S, D> {
    /// A doorman for `directory`. Slow checks run on `spawn`: give it a niced thread of its own.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub fn new(directory: D, clock: Arc<dyn Clock>, spawn: Arc<dyn Spawn>, insecure: bool) -> std::io::Result<Self> {
        let mut key = [0; 32];
        secret::system_random(&mut key)?;
        Ok(Self {
            directory,
            clock,
            spawn,
            insecure,
            key,
            waiting: AtomicUsize::new(0),
            verified: Mutex::default(),
            failures: Mutex::default(),
            store: std::marker::PhantomData,
        })
    }

    async fn check(&self, name: &[u8], given: &[u8], peer: SocketAddr) -> Result<Grant<S>, Refusal> {
        let found = std::str::from_utf8(name).ok().and_then(|name| self.directory.find(name));
        let (grant, stored) = match found {
            Some((grant, Some(stored))) => (Some(grant), stored),
            // As in Redis, any secret is right where none is needed.
            Some((grant, None)) if self.is_open_to(&grant, peer) => return Ok(grant),
            // Which kind is checked in vain depends on the name, in a way that nobody can know from outside (S3).
            _ => (None, secret::dummy(secret::keyed(&self.key, name).finalize().into_bytes()[0] & 1 == 0)),
        };
        let fingerprint = self.fingerprint(&stored, given);
        let known = grant.as_ref().and_then(|grant| self.verified.lock().get(&grant.tenant).copied());
        if known.is_some_and(|known| secret::keyed(&self.key, &known).verify_slice(&self.tag(&fingerprint)).is_ok())
            && let Some(grant) = grant
        {
            return Ok(grant);
        }
        self.may_try(peer.ip())?;
        let right = if secret::is_slow(&stored) {
            self.check_slowly(stored, given).await?
        } else {
            secret::check(&stored, given).unwrap_or(false)
        };
        match grant.filter(|_| right) {
            Some(grant) => {
                self.remember(grant.tenant, fingerprint);
                Ok(grant)
            }
            None => {
                self.failed(peer.ip());
                Err(Refusal::WrongSecret)
            }
        }
    }

    /// Whether nobody needs a secret to be this tenant.
    fn is_open_to(&self, grant: &Grant<S>, peer: SocketAddr) -> bool {
        &*grant.name == "default" && (self.insecure || peer.ip().to_canonical().is_loopback())
    }

    /// A keyed hash of a stored secret and the one given for it.
    fn fingerprint(&self, stored: &[u8], given: &[u8]) -> [u8; 32] {
        let mut mac = secret::keyed(&self.key, &(stored.len() as u64).to_le_bytes());
        mac.update(stored);
        mac.update(given);
        mac.finalize().into_bytes().into()
    }

    /// What fingerprints are compared by, in constant time.
    fn tag(&self, fingerprint: &[u8; 32]) -> [u8; 32] {
        secret::keyed(&self.key, fingerprint).finalize().into_bytes().into()
    }

    fn remember(&self, tenant: u32, fingerprint: [u8; 32]) {
        let mut verified = self.verified.lock();
        if verified.len() >= VERIFIED_MAX {
            // Whoever is forgotten pays for one more check.
            verified.pop_first();
        }
        verified.insert(tenant, fingerprint);
    }

    async fn check_slowly(&self, stored: Vec<u8>, given: &[u8]) -> Result<bool, Refusal> {
        let _place = Waiting::among(&self.waiting)?;
        let given = Zeroizing::new(given.to_vec());
        let (answer, answered) = oneshot::channel();
        self.spawn.spawn(Box::pin(async move {
            if !answer.is_closed() {
                // Whoever asked may have gone meanwhile.
                let _ = answer.send(secret::check(&stored, &given).unwrap_or(false));
            }
        }));
        answered.await.map_err(|_| Refusal::Busy)
    }

    fn may_try(&self, address: IpAddr) -> Result<(), Refusal> {
        let now = self.clock.now();
        match self.failures.lock().get(&address) {
            Some(failures) if failures.until > now => {
                Err(Refusal::TooManyFailures { retry_seconds: (failures.until - now).div_ceil(SECOND_NANOS) })
            }
            _ => Ok(()),
        }
    }

    fn failed(&self, address: IpAddr) {
        let now = self.clock.now();
        let mut all = self.failures.lock();
        if all.len() >= ADDRESSES_MAX && !all.contains_key(&address) {
            let first = all.iter().min_by_key(|(_, failures)| failures.until).map(|(&address, _)| address);
            first.map(|address| all.remove(&address));
        }
        let failures = all.entry(address).or_insert(Failures { count: 0, until: 0, last: now });
        if now.saturating_sub(failures.last) > 2 * BACK_OFF_MAX_NANOS {
            failures.count = 0;
        }
        failures.count = failures.count.saturating_add(1);
        failures.last = now;
        if let Some(beyond) = failures.count.checked_sub(FAILURES_FREE) {
            failures.until = now + (SECOND_NANOS << beyond.min(6)).min(BACK_OFF_MAX_NANOS);
        }
    }
}

impl<S: Store, D: Directory<S>> Doorman<S> for Secrets<S, D> {
    fn open_door(&self, peer: SocketAddr) -> Option<Grant<S>> {
        let (grant, stored) = self.directory.find("default")?;
        (stored.is_none() && self.is_open_to(&grant, peer)).then_some(grant)
    }

    fn login<'a>(
        &'a self,
        name: &'a [u8],
        secret: &'a [u8],
        peer: SocketAddr,
    ) -> Checking<'a, Result<Grant<S>, Refusal>> {
        Box::pin(self.check(name, secret, peer))
    }

    fn is_default_open(&self) -> bool {
        self.directory.find("default").is_some_and(|(_, stored)| stored.is_none())
    }
}

/// A place in the queue of slow checks.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn among(waiting: &'a AtomicUsize) -> Result<Self, Refusal> {
        let more = |now| (now < WAITING_MAX).then(|| now + 1);
        match waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(Self(waiting)),
            Err(_) => Err(Refusal::Busy),
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
