//! How secrets are kept: never as they are. `docs/format/secret.md` has the bytes.
//!
//! A secret that Weir generates has 160 random bits: a keyed hash of it is as good as a slow one, and costs a
//! microsecond. One that a person chose can be guessed, so each guess is made to cost: argon2id.

use argon2::{Algorithm, Argon2, Params, Version};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

const VERSION: u8 = 1;
const KIND_TOKEN: u8 = 1;
const KIND_CHOSEN: u8 = 2;
const SALT_BYTES: usize = 16;
const HASH_BYTES: usize = 32;
const TOKEN_LEN: usize = 2 + SALT_BYTES + HASH_BYTES;
const CHOSEN_LEN: usize = TOKEN_LEN + 8;

/// What argon2id costs: 19 MiB and two passes, 10 to 30 ms of one processor.
const MEMORY_KIB: u32 = 19 << 10;
const PASSES: u32 = 2;
/// More than this is no cost that Weir ever chose: a stored secret that asks for it is refused.
const MEMORY_KIB_MAX: u32 = 1 << 20;
const PASSES_MAX: u32 = 64;

/// Random bytes of a generated secret.
const TOKEN_RANDOM_BYTES: usize = 20;
/// Starts a generated secret, so that one found in a file can be told for what it is.
const TOKEN_PREFIX: &str = "weir_";

/// Fills a buffer with bytes that nobody can guess.
pub type Random<'a> = &'a mut dyn FnMut(&mut [u8]);

/// Random bytes of the system.
///
/// # Errors
/// The system gives none.
#[allow(clippy::disallowed_methods, reason = "a seed that can be repeated is no secret: this one must not be")]
pub fn system_random(buffer: &mut [u8]) -> std::io::Result<()> {
    getrandom::fill(buffer).map_err(|error| std::io::Error::other(error.to_string()))
}

/// Bytes that are no stored secret, or one that costs more than Weir ever asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// A new secret and how it is stored. The text is shown once and never kept.
pub fn generate(random: Random<'_>) -> (Zeroizing<String>, Vec<u8>) {
    let mut bytes = Zeroizing::new([0; TOKEN_RANDOM_BYTES]);
    random(&mut bytes[..]);
    let mut text = Zeroizing::new(String::with_capacity(TOKEN_PREFIX.len() + 2 * TOKEN_RANDOM_BYTES));
    text.push_str(TOKEN_PREFIX);
    for byte in bytes.iter() {
        for half in [byte >> 4, byte & 15] {
            text.push(char::from(b"0123456789abcdef"[usize::from(half)]));
        }
    }
    let stored = store_token(text.as_bytes(), random);
    (text, stored)
}

fn store_token(token: &[u8], random: Random<'_>) -> Vec<u8> {
    let mut stored = vec![VERSION, KIND_TOKEN];
    let mut salt = [0; SALT_BYTES];
    random(&mut salt);
    stored.extend_from_slice(&salt);
    stored.extend_from_slice(&keyed(&salt, token).finalize().into_bytes());
    stored
}

/// How a secret that somebody chose is stored. Takes 10 to 30 ms of processor time.
///
/// # Errors
/// There is not enough memory.
pub fn choose(secret: &[u8], random: Random<'_>) -> Result<Vec<u8>, Malformed> {
    let mut salt = [0; SALT_BYTES];
    random(&mut salt);
    let hash = slow(secret, &salt, MEMORY_KIB, PASSES)?;
    let mut stored = vec![VERSION, KIND_CHOSEN];
    stored.extend_from_slice(&MEMORY_KIB.to_le_bytes());
    stored.extend_from_slice(&PASSES.to_le_bytes());
    stored.extend_from_slice(&salt);
    stored.extend_from_slice(&hash[..]);
    Ok(stored)
}

/// Whether checking costs milliseconds.
pub fn is_slow(stored: &[u8]) -> bool {
    stored.get(1) == Some(&KIND_CHOSEN)
}

/// Whether `secret` is what was stored; the time it takes does not depend on how much of it is right (S3).
///
/// # Errors
/// `stored` is no stored secret.
pub fn check(stored: &[u8], secret: &[u8]) -> Result<bool, Malformed> {
    match stored {
        [VERSION, KIND_TOKEN, rest @ ..] if stored.len() == TOKEN_LEN => {
            let (salt, hash) = rest.split_at(SALT_BYTES);
            Ok(keyed(salt, secret).verify_slice(hash).is_ok())
        }
        [VERSION, KIND_CHOSEN, rest @ ..] if stored.len() == CHOSEN_LEN => {
            let number = |at: usize| rest[at..at + 4].iter().rev().fold(0, |sum, &byte| sum << 8 | u32::from(byte));
            let (memory_kib, passes) = (number(0), number(4));
            if memory_kib > MEMORY_KIB_MAX || passes > PASSES_MAX {
                return Err(Malformed);
            }
            let (salt, hash) = rest[8..].split_at(SALT_BYTES);
            let found = slow(secret, salt, memory_kib, passes)?;
            // Compared through a keyed hash of both: in constant time.
            let expected = keyed(salt, hash).finalize().into_bytes();
            Ok(keyed(salt, &found[..]).verify_slice(&expected).is_ok())
        }
        _ => Err(Malformed),
    }
}

/// A stored secret that no secret fits, of either kind: what is checked for a name that nobody has.
pub fn dummy(slow: bool) -> Vec<u8> {
    let mut stored = vec![VERSION, if slow { KIND_CHOSEN } else { KIND_TOKEN }];
    if slow {
        stored.extend_from_slice(&MEMORY_KIB.to_le_bytes());
        stored.extend_from_slice(&PASSES.to_le_bytes());
    }
    stored.extend_from_slice(&[0; SALT_BYTES + HASH_BYTES]);
    stored
}

/// HMAC-SHA-256.
pub(super) fn keyed(key: &[u8], message: &[u8]) -> Hmac<Sha256> {
    #[cfg(test)]
    tests::KEYED.set(tests::KEYED.get() + 1);
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length");
    mac.update(message);
    mac
}

fn slow(secret: &[u8], salt: &[u8], memory_kib: u32, passes: u32) -> Result<Zeroizing<[u8; HASH_BYTES]>, Malformed> {
    #[cfg(test)]
    tests::SLOW.set(tests::SLOW.get() + 1);
    let params = Params::new(memory_kib, passes, 1, Some(HASH_BYTES)).map_err(|_| Malformed)?;
    let mut hash = Zeroizing::new([0; HASH_BYTES]);
    let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    argon.hash_password_into(secret, salt, &mut hash[..]).map_err(|_| Malformed)?;
    Ok(hash)
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    thread_local! {
        /// Keyed hashes made by this thread.
        pub(in crate::auth) static KEYED: Cell<u64> = const { Cell::new(0) };
        /// And slow ones.
        pub(in crate::auth) static SLOW: Cell<u64> = const { Cell::new(0) };
    }

    fn random(buffer: &mut [u8]) {
        system_random(buffer).expect("the system has random bytes");
    }

    #[test]
    fn s4_a_secret_is_recognised_and_not_to_be_read_from_what_is_stored() {
        let (token, stored) = generate(&mut random);
        assert!(token.len() == 45 && token.starts_with("weir_"));
        let chosen = choose(b"correct horse", &mut random).expect("memory");
        for (secret, stored) in [(token.as_bytes(), &stored), (b"correct horse", &chosen)] {
            assert_eq!(check(stored, secret), Ok(true));
            assert_eq!(check(stored, &secret[1..]), Ok(false));
            assert_eq!(check(stored, b""), Ok(false));
            assert!(!stored.windows(8).any(|part| secret.windows(8).any(|other| part == other)));
        }
        assert_ne!(chosen, choose(b"correct horse", &mut random).expect("memory"), "salted");
        assert_ne!(generate(&mut random).0, token);
        assert!(is_slow(&chosen) && !is_slow(&stored));
        assert_eq!((check(&dummy(false), b"x"), check(&dummy(true), b"x")), (Ok(false), Ok(false)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_checked_or_refused(mut stored: Vec<u8>, kind in 0..3_u8) {
            // The cost is not to be huge here: the numbers that would be are refused.
            if stored.len() > 2 {
                (stored[0], stored[1]) = (VERSION, kind);
            }
            if kind == KIND_CHOSEN {
                stored.truncate(CHOSEN_LEN - 1);
            }
            let _ = check(&stored, b"secret");
        }
    }

    #[test]
    fn a_stored_secret_cannot_ask_for_more_than_weir_does() {
        let mut stored = dummy(true);
        stored[2..6].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(check(&stored, b"x"), Err(Malformed));
    }
}
