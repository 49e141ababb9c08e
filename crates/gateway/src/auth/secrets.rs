//! The doorman of a node with tenants: looks names up in a directory, checks secrets, and slows guesses down.

use std::net::SocketAddr;
use std::sync::Arc;

use weir_io::Clock;
use weir_node::StoredUser;
use zeroize::Zeroizing;

use super::attempts::{Attempt, Attempts};
use super::login_name::{DEFAULT_USER, LoginName};
use super::slow::SlowHash;
use super::{Checking, Doorman, Refusal, secret};
use crate::store::Store;
use crate::tenant::tenancy::Grant;

/// A name that hardly anybody gives to a tenant. It does no harm if somebody does.
const NOBODY: &str = "nobody-has-this-name";

/// The tenant that is meant if no tenant is named.
const DEFAULT: &str = "default";

/// The tenants that exist.
pub trait Directory<S>: Send + Sync + 'static {
    /// The tenant called `name`, and its stored secret if it has one.
    fn find(&self, name: &str) -> Option<(Grant<S>, Option<Vec<u8>>)>;
}

/// Checks logins.
///
/// - The tenant `default` needs no secret as long as it has none, but only from this machine, unless `insecure`.
/// - A secret that was right once is remembered by a keyed hash, under a key of this process, so that clients that
///   reconnect cost microseconds. A changed secret has another hash, so what is remembered of the old secret fits no
///   more.
/// - A generated secret that is right costs microseconds. Every wrong secret costs what a chosen secret costs, whether
///   the name's secret is generated or chosen, or the name does not exist (S3): one slow hash. Only one of these is
///   made at a time, and few may wait.
/// - After ten wrong secrets an address waits, and so does a name ([`super::failures`]). A client that brings a secret
///   that was right before does not wait, and neither does a clean address, so a guesser cannot lock the owner out.
pub struct Secrets<S, D> {
    directory: D,
    slow: Arc<SlowHash>,
    insecure: bool,
    attempts: Arc<Attempts>,
    /// Checked, like `slow_dummy`, for a name that has no secret of that kind.
    quick_dummy: Vec<u8>,
    slow_dummy: Vec<u8>,
    store: std::marker::PhantomData<fn() -> S>,
}

impl<S, D: Directory<S>> Secrets<S, D> {
    /// A doorman for `directory`. `slow` checks the secrets that somebody chose.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub fn new(directory: D, clock: Arc<dyn Clock>, slow: Arc<SlowHash>, insecure: bool) -> std::io::Result<Self> {
        Ok(Self {
            directory,
            slow,
            insecure,
            attempts: Arc::new(Attempts::new(clock)?),
            quick_dummy: secret::dummy(false),
            slow_dummy: secret::dummy(true),
            store: std::marker::PhantomData,
        })
    }

    async fn check(&self, name: &[u8], given: &[u8], peer: SocketAddr) -> Result<Grant<S>, Refusal> {
        let hash = self.attempts.name_hash(name);
        let (grant, stored) = match self.find(name) {
            Some((grant, Lock::Secret(stored))) => (Some(grant), stored),
            // As in Redis, any secret is right if none is needed.
            Some((grant, Lock::Open)) => return Ok(grant),
            Some((grant, Lock::Local)) if self.is_open_to(&grant, peer) => return Ok(grant),
            _ => (None, self.quick_dummy.clone()),
        };
        let attempt = Attempt {
            is_somebody: grant.is_some(),
            address: peer.ip(),
            name: hash,
            fingerprint: self.attempts.fingerprint(&stored, given),
        };
        if self.attempts.was_right(&attempt)
            && let Some(grant) = grant
        {
            return Ok(grant);
        }
        self.attempts.may_try(&attempt)?;
        let is_chosen = secret::is_slow(&stored);
        let quick = if is_chosen { &self.quick_dummy } else { &stored };
        let fits = secret::check(quick, given).unwrap_or(false);
        if fits
            && !is_chosen
            && let Some(grant) = grant
        {
            self.attempts.right(&attempt);
            return Ok(grant);
        }
        let slow = if is_chosen { stored } else { self.slow_dummy.clone() };
        let (attempts, given) = (Arc::clone(&self.attempts), Zeroizing::new(given.to_vec()));
        let judged = self.slow.run(move || attempts.judge(&attempt, &slow, is_chosen, &given)).await;
        judged.map_err(|_| Refusal::Busy)??;
        grant.ok_or(Refusal::WrongSecret)
    }

    /// The tenant or user called `name`, if it exists, and what a client must show to be let in as that.
    fn find(&self, name: &[u8]) -> Option<(Grant<S>, Lock)> {
        let login = LoginName::parse(name);
        let tenant = std::str::from_utf8(login.tenant).ok().and_then(|name| self.directory.find(name));
        // Finding a tenant takes longer than finding none, which can be measured from outside. So one search of each
        // kind is made for every name (S3).
        let other = std::hint::black_box(self.directory.find(if tenant.is_some() { NOBODY } else { DEFAULT }));
        let (found, user) = match (tenant, login.user) {
            (Some(tenant), user) => (tenant, user.unwrap_or(DEFAULT_USER)),
            (None, None) => (other?, name),
            (None, Some(_)) => return None,
        };
        let (grant, secret) = found;
        if user == DEFAULT_USER {
            return Some((grant, secret.map_or(Lock::Local, Lock::Secret)));
        }
        let lock = lock_of(&grant.tenancy.users(), user)?;
        Some((grant, lock))
    }

    /// Whether a client from `peer` needs no secret to act as this tenant.
    fn is_open_to(&self, grant: &Grant<S>, peer: SocketAddr) -> bool {
        &*grant.name == "default" && (self.insecure || peer.ip().to_canonical().is_loopback())
    }
}

/// What a client must show to be let in.
enum Lock {
    /// A secret that fits this stored one.
    Secret(Vec<u8>),
    /// Nothing, if the client is on this machine.
    Local,
    /// Nothing.
    Open,
}

/// What a client must show to act as the user called `name`; `None` if there is no such user, or it may not log in.
fn lock_of(users: &[StoredUser], name: &[u8]) -> Option<Lock> {
    let place = users.binary_search_by(|user| (*user.name).cmp(name)).ok()?;
    let StoredUser { rules, secret, .. } = &users[place];
    let has = |word: &[u8]| rules.iter().any(|rule| **rule == *word);
    match secret {
        _ if !has(b"on") => None,
        _ if has(b"nopass") => Some(Lock::Open),
        Some(secret) => Some(Lock::Secret(secret.as_bytes().to_vec())),
        None => None,
    }
}

impl<S: Store, D: Directory<S>> Doorman<S> for Secrets<S, D> {
    fn open_door(&self, peer: SocketAddr) -> Option<Grant<S>> {
        let (grant, stored) = self.directory.find("default")?;
        (stored.is_none() && self.is_open_to(&grant, peer)).then_some(grant)
    }

    fn vouched_for(&self, names: &[String]) -> Option<Grant<S>> {
        let mut grants = names.iter().filter_map(|name| self.directory.find(name)).map(|(grant, _)| grant);
        let first = grants.next()?;
        grants.all(|other| other.tenant == first.tenant).then_some(first)
    }

    fn login<'a>(
        &'a self,
        name: &'a [u8],
        secret: &'a [u8],
        peer: SocketAddr,
    ) -> Checking<'a, Result<Grant<S>, Refusal>> {
        Box::pin(self.check(name, secret, peer))
    }

    fn slow_hash(&self) -> Option<&Arc<SlowHash>> {
        Some(&self.slow)
    }

    fn whose(&self, name: &[u8]) -> Option<u32> {
        let login = LoginName::parse(name);
        let tenant = std::str::from_utf8(login.tenant).ok().and_then(|name| self.directory.find(name));
        let other = self.directory.find(if tenant.is_some() { NOBODY } else { DEFAULT });
        match (tenant, login.user) {
            (Some((grant, _)), _) => Some(grant.tenant),
            (None, None) => other.map(|(grant, _)| grant.tenant),
            (None, Some(_)) => None,
        }
    }

    fn is_default_open(&self) -> bool {
        self.directory.find("default").is_some_and(|(_, stored)| stored.is_none())
    }

    fn knows(&self, name: &[u8]) -> bool {
        let found = std::str::from_utf8(name).ok().and_then(|name| self.directory.find(name));
        drop(std::hint::black_box(self.directory.find(if found.is_some() { NOBODY } else { DEFAULT })));
        found.is_some()
    }
}

#[cfg(test)]
mod tests;
