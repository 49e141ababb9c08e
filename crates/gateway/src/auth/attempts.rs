//! What is remembered of attempts to log in: secrets that were right, and failures.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use hmac::Mac;
use parking_lot::Mutex;
use weir_io::Clock;

use super::failures::{Failures, NameHash};
use super::{Refusal, secret};

/// How many verified secrets are remembered, one for each name.
const VERIFIED_MAX: usize = 64 << 10;
const SECOND_NANOS: u64 = 1_000_000_000;
/// Stored secrets are padded to this length before they are hashed, so that secrets of either kind cost the same (S3).
const STORED_PADDED_BYTES: usize = 576;

/// One secret that was given for one name.
pub(super) struct Attempt {
    /// Whether the name exists.
    pub(super) is_somebody: bool,
    pub(super) address: IpAddr,
    pub(super) name: NameHash,
    pub(super) fingerprint: Fingerprint,
}

/// A keyed hash of a stored secret and of the secret given for it.
pub(super) type Fingerprint = [u8; 32];

/// The memory of attempts to log in.
pub(super) struct Attempts {
    clock: Arc<dyn Clock>,
    /// A key of this process, so that what is remembered is of no use to anybody else.
    key: [u8; 32],
    verified: Mutex<BTreeMap<NameHash, Fingerprint>>,
    failures: Mutex<Failures>,
}

impl Attempts {
    /// No attempts yet.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub(super) fn new(clock: Arc<dyn Clock>) -> std::io::Result<Self> {
        let mut key = [0; 32];
        secret::system_random(&mut key)?;
        Ok(Self { clock, key, verified: Mutex::default(), failures: Mutex::default() })
    }

    pub(super) fn name_hash(&self, name: &[u8]) -> NameHash {
        secret::keyed(&self.key, name).finalize().into_bytes().into()
    }

    pub(super) fn fingerprint(&self, stored: &[u8], given: &[u8]) -> Fingerprint {
        let mut mac = secret::keyed(&self.key, &(stored.len() as u64).to_le_bytes());
        mac.update(stored);
        mac.update(&[0; STORED_PADDED_BYTES][..STORED_PADDED_BYTES.saturating_sub(stored.len())]);
        mac.update(given);
        mac.finalize().into_bytes().into()
    }

    /// Whether the secret was right before. Something is also compared for a name that nobody has, and for a name whose
    /// owner has not logged in yet: otherwise the difference in time could be measured (S3).
    pub(super) fn was_right(&self, attempt: &Attempt) -> bool {
        let known = self.verified.lock().get(&attempt.name).copied();
        let tag = secret::keyed(&self.key, &attempt.fingerprint).finalize().into_bytes();
        let is_known = secret::keyed(&self.key, &known.unwrap_or_default()).verify_slice(&tag).is_ok();
        is_known && known.is_some() && attempt.is_somebody
    }

    /// Remembers that the secret was right.
    pub(super) fn right(&self, attempt: &Attempt) {
        let mut verified = self.verified.lock();
        if verified.len() >= VERIFIED_MAX {
            // The name that is forgotten pays for one more check.
            verified.pop_first();
        }
        verified.insert(attempt.name, attempt.fingerprint);
    }

    /// Refuses the attempt if there were too many failures before it.
    pub(super) fn may_try(&self, attempt: &Attempt) -> Result<(), Refusal> {
        match self.failures.lock().wait(attempt.address, &attempt.name, self.clock.now()) {
            Some(wait) => Err(Refusal::TooManyFailures { retry_seconds: wait.div_ceil(SECOND_NANOS) }),
            None => Ok(()),
        }
    }

    /// Checks a secret on a thread where that may take milliseconds. Checks run one after the other, so a wrong secret
    /// counts before the next is checked, however many are given at the same time. `is_chosen`: `stored` is the secret
    /// of that name, and not just work to be done (S3).
    pub(super) fn judge(&self, attempt: &Attempt, stored: &[u8], is_chosen: bool, given: &[u8]) -> Result<(), Refusal> {
        // While this attempt waited, others may have verified the same secret, or may have failed.
        if self.was_right(attempt) {
            return Ok(());
        }
        self.may_try(attempt)?;
        let fits = secret::check(stored, given).unwrap_or(false);
        match attempt.is_somebody && is_chosen && fits {
            true => {
                self.right(attempt);
                Ok(())
            }
            false => {
                self.failures.lock().add(attempt.address, attempt.name, self.clock.now());
                Err(Refusal::WrongSecret)
            }
        }
    }
}
