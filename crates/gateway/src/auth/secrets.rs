//! The doorman of a node with tenants: names from a directory, secrets checked, guesses slowed down.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use hmac::Mac;
use parking_lot::Mutex;
use weir_io::Clock;

use super::failures::{Failures, NameHash};
use super::slow::SlowHash;
use super::{Checking, Doorman, Grant, Refusal, secret};
use crate::store::Store;

/// Verified secrets remembered, one for each tenant.
const VERIFIED_MAX: usize = 64 << 10;
const SECOND_NANOS: u64 = 1_000_000_000;
/// A name that hardly anybody gives to a tenant; it does no harm if somebody does.
const NOBODY: &str = "nobody-has-this-name";

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
/// - After ten wrong secrets an address waits, and so does a name ([`Failures`]); who brings a secret that was right before does
///   not, and neither does a clean address: a guesser cannot lock the owner out.
pub struct Secrets<S, D> {
    directory: D,
    clock: Arc<dyn Clock>,
    slow: Arc<SlowHash>,
    insecure: bool,
    key: [u8; 32],
    /// What secrets are checked against for names that nobody has, of either kind.
    dummies: [Vec<u8>; 2],
    verified: Mutex<BTreeMap<u32, [u8; 32]>>,
    failures: Mutex<Failures>,
    store: std::marker::PhantomData<fn() -> S>,
}

impl<S: Store, D: Directory<S>> Secrets<S, D> {
    /// A doorman for `directory`. Secrets that somebody chose are checked by `slow`.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub fn new(directory: D, clock: Arc<dyn Clock>, slow: Arc<SlowHash>, insecure: bool) -> std::io::Result<Self> {
        let mut key = [0; 32];
        secret::system_random(&mut key)?;
        Ok(Self {
            directory,
            clock,
            slow,
            insecure,
            key,
            dummies: [secret::dummy(true), secret::dummy(false)],
            verified: Mutex::default(),
            failures: Mutex::default(),
            store: std::marker::PhantomData,
        })
    }

    async fn check(&self, name: &[u8], given: &[u8], peer: SocketAddr) -> Result<Grant<S>, Refusal> {
        let hash: NameHash = secret::keyed(&self.key, name).finalize().into_bytes().into();
        let found = std::str::from_utf8(name).ok().and_then(|name| self.directory.find(name));
        // Finding somebody takes longer than finding nobody, which can be measured from outside: both is done for every name (S3).
        drop(std::hint::black_box(self.directory.find(if found.is_some() { NOBODY } else { "default" })));
        let (grant, stored) = match found {
            Some((grant, Some(stored))) => (Some(grant), stored),
            // As in Redis, any secret is right where none is needed.
            Some((grant, None)) if self.is_open_to(&grant, peer) => return Ok(grant),
            // Which kind is checked in vain depends on the name, in a way that nobody can know from outside (S3).
            _ => (None, self.dummies[usize::from(hash[0] & 1)].clone()),
        };
        let fingerprint = self.fingerprint(&stored, given);
        // Compared with something for a name that nobody has, or whose owner has not been here, too: what takes longer is seen (S3).
        let known = self.verified.lock().get(&grant.as_ref().map_or(0, |grant| grant.tenant)).copied();
        let is_known =
            secret::keyed(&self.key, &known.unwrap_or_default()).verify_slice(&self.tag(&fingerprint)).is_ok();
        if is_known
            && known.is_some()
            && let Some(grant) = grant
        {
            return Ok(grant);
        }
        self.may_try(peer, &hash)?;
        let right = if secret::is_slow(&stored) {
            self.slow.check(stored, given).await.map_err(|_| Refusal::Busy)?
        } else {
            secret::check(&stored, given).unwrap_or(false)
        };
        match grant.filter(|_| right) {
            Some(grant) => {
                self.remember(grant.tenant, fingerprint);
                Ok(grant)
            }
            None => {
                self.failures.lock().add(peer.ip().to_canonical(), hash, self.clock.now());
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

    fn may_try(&self, peer: SocketAddr, name: &NameHash) -> Result<(), Refusal> {
        match self.failures.lock().wait(peer.ip().to_canonical(), name, self.clock.now()) {
            Some(wait) => Err(Refusal::TooManyFailures { retry_seconds: wait.div_ceil(SECOND_NANOS) }),
            None => Ok(()),
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
