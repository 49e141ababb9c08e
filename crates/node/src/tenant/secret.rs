//! Secrets as the catalogue keeps them.

use std::fmt;

/// A stored secret is at most this long, in bytes.
pub const SECRET_BYTES_MAX: usize = 1024;

/// A secret as it is stored: bytes whose meaning only the gateway knows. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredSecret(Box<[u8]>);

impl StoredSecret {
    /// Keeps `bytes`, at most [`SECRET_BYTES_MAX`].
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for StoredSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoredSecret(…)")
    }
}
