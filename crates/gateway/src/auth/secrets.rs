//! The doorman of a node with tenants: names from a directory, secrets checked, guesses slowed down.

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

/// A name that hardly anybody gives to a tenant; it does no harm if somebody does.
const NOBODY: &str = "nobody-has-this-name";

/// The tenant that is meant where none is named.
const DEFAULT: &str = "default";

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
/// - A generated secret that is right costs microseconds. Everything that is wrong costs what a chosen secret costs,
///   whether the name's secret is generated, chosen, or there is no such name (S3): one slow hash, of which one is made
///   at a time, and few wait.
/// - After ten wrong secrets an address waits, and so does a name ([`super::failures`]); who brings a secret that was
///   right before does not, and neither does a clean address: a guesser cannot lock the owner out.
pub struct Secrets<S, D> {
    directory: D,
    slow: Arc<SlowHash>,
    insecure: bool,
    attempts: Arc<Attempts>,
    /// What is checked where a name has no secret of that kind.
    quick_dummy: Vec<u8>,
    slow_dummy: Vec<u8>,
    store: std::marker::PhantomData<fn() -> S>,
}

impl<S, D: Directory<S>> Secrets<S, D> {
    /// A doorman for `directory`. Secrets that somebody chose are checked by `slow`.
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
            // As in Redis, any secret is right where none is needed.
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

    /// Who is called `name`, if anybody is, and what he must show: a tenant, or a user of one.
    fn find(&self, name: &[u8]) -> Option<(Grant<S>, Lock)> {
        let login = LoginName::parse(name);
        let tenant = std::str::from_utf8(login.tenant).ok().and_then(|name| self.directory.find(name));
        // Finding somebody takes longer than finding nobody, which can be measured from outside: both is done for every
        // name (S3).
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

    /// Whether nobody needs a secret to be this tenant.
    fn is_open_to(&self, grant: &Grant<S>, peer: SocketAddr) -> bool {
        &*grant.name == "default" && (self.insecure || peer.ip().to_canonical().is_loopback())
    }
}

/// What somebody must show.
enum Lock {
    /// A secret that fits this one.
    Secret(Vec<u8>),
    /// Nothing, from this machine.
    Local,
    /// Nothing.
    Open,
}

/// What the user called `name` must show; `None` if there is none who may log in.
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
