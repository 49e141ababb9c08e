//! Random numbers for a tenant's commands. Each tenant has a sequence of its own: none can tell what another one draws,
//! nor how often (S5).

use std::sync::atomic::{AtomicU64, Ordering};

use hmac::Mac;
use weir_io::Rng;

use crate::auth::secret;

/// The seeds of all tenants.
pub(crate) struct Seeds {
    key: [u8; 32],
}

impl Seeds {
    /// Seeds that follow from `key`, which nobody may be able to guess.
    pub(crate) fn new(key: [u8; 32]) -> Self {
        Self { key }
    }

    /// The seed of a tenant for `purpose`. No other seed follows from it.
    pub(crate) fn of(&self, tenant: u32, purpose: &str) -> u64 {
        let mut mac = secret::keyed(&self.key, &tenant.to_le_bytes());
        mac.update(purpose.as_bytes());
        let hash: [u8; 32] = mac.finalize().into_bytes().into();
        u64::from_le_bytes(std::array::from_fn(|index| hash[index]))
    }
}

/// The random numbers of one tenant. Not for secrets: from one of them the others can be computed.
pub(crate) struct Draws {
    /// The seed of the next number.
    seed: AtomicU64,
}

impl Draws {
    /// The numbers that follow from `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed: AtomicU64::new(seed) }
    }

    /// The next number. It does not follow from any key.
    pub(crate) fn next_u64(&self) -> u64 {
        Rng::new(self.seed.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)).next_u64()
    }
}
