//! How secrets are stored: never in clear. `docs/format/secret.md` describes the bytes.
//!
//! A secret that Weir generates has 160 random bits. A keyed hash of it is as safe as a slow hash, and costs a
//! microsecond. A secret that a person chose can be guessed, so each guess must be costly: argon2id.

use argon2::{Algorithm, Argon2, Params, Version};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use weir_command::acl::Hash;
use zeroize::Zeroizing;

const VERSION: u8 = 1;
const KIND_TOKEN: u8 = 1;
const KIND_CHOSEN: u8 = 2;
const KIND_PASSWORDS: u8 = 3;
const SALT_BYTES: usize = 16;
const HASH_BYTES: usize = 32;
const TOKEN_LEN: usize = 2 + SALT_BYTES + HASH_BYTES;
const CHOSEN_LEN: usize = TOKEN_LEN + 8;
/// Bytes in front of the hashes in what is stored of a user's passwords.
const PASSWORDS_FRONT_BYTES: usize = 2 + 8 + SALT_BYTES;

/// How many passwords a user may have.
pub const PASSWORDS_MAX: usize = 16;

/// The cost of argon2id: 19 MiB and two passes, which take 10 to 30 ms of one processor.
const MEMORY_KIB: u32 = 19 << 10;
const PASSES: u32 = 2;
/// Weir never chooses a higher cost than this. A stored secret that asks for more is refused.
const MEMORY_KIB_MAX: u32 = 1 << 20;
const PASSES_MAX: u32 = 64;

/// Random bytes of a generated secret.
const TOKEN_RANDOM_BYTES: usize = 20;
/// Every generated secret begins with this, so that one found in a file can be recognized.
const TOKEN_PREFIX: &str = "weir_";

/// Fills a buffer with bytes that nobody can guess.
pub type Random<'a> = &'a mut dyn FnMut(&mut [u8]);

/// Fills the buffer with random bytes of the system.
///
/// # Errors
/// The system has no random bytes.
#[allow(clippy::disallowed_methods, reason = "a seed that can be repeated is no secret: this one must not be")]
pub fn system_random(buffer: &mut [u8]) -> std::io::Result<()> {
    getrandom::fill(buffer).map_err(|error| std::io::Error::other(error.to_string()))
}

/// The bytes are no stored secret, or its check would cost more than Weir ever asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// A new secret, and what is stored of it. The text is shown once and never kept.
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

/// What is stored of a secret that somebody chose. Takes 10 to 30 ms of processor time.
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
    matches!(stored.get(1), Some(&(KIND_CHOSEN | KIND_PASSWORDS)))
}

/// Whether `secret` is the stored one. The time that this takes does not depend on how much of `secret` is right (S3).
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
            let (memory_kib, passes) = costs(rest)?;
            let (salt, hash) = rest[8..].split_at(SALT_BYTES);
            // Makes this take as long as a check of a user's password.
            std::hint::black_box(sha256(secret));
            let found = slow(secret, salt, memory_kib, passes)?;
            // Comparing keyed hashes of both takes constant time.
            let expected = keyed(salt, hash).finalize().into_bytes();
            Ok(keyed(salt, &found[..]).verify_slice(&expected).is_ok())
        }
        [VERSION, KIND_PASSWORDS, ..] => has_hash(stored, &sha256(secret)),
        _ => Err(Malformed),
    }
}

/// The SHA-256 of a password. ACL rules may show no more of it.
pub fn sha256(password: &[u8]) -> Zeroizing<Hash> {
    Zeroizing::new(Sha256::digest(password).into())
}

/// What is stored of a user without passwords: a salt for passwords to come.
pub fn no_passwords(random: Random<'_>) -> Vec<u8> {
    let mut stored = vec![VERSION, KIND_PASSWORDS];
    stored.extend_from_slice(&MEMORY_KIB.to_le_bytes());
    stored.extend_from_slice(&PASSES.to_le_bytes());
    let mut salt = [0; SALT_BYTES];
    random(&mut salt);
    stored.extend_from_slice(&salt);
    stored
}

/// The hashes of a user's passwords.
fn hashes(stored: &[u8]) -> Result<&[Hash], Malformed> {
    let (front, hashes) = stored.split_at_checked(PASSWORDS_FRONT_BYTES).ok_or(Malformed)?;
    let (hashes, rest) = hashes.as_chunks();
    let is_one = front.starts_with(&[VERSION, KIND_PASSWORDS]) && rest.is_empty() && hashes.len() <= PASSWORDS_MAX;
    if is_one { Ok(hashes) } else { Err(Malformed) }
}

/// What is stored of a user's password with this SHA-256. Takes 10 to 30 ms of processor time.
fn stored_hash(stored: &[u8], hash: &Hash) -> Result<Zeroizing<Hash>, Malformed> {
    let front = stored.get(2..PASSWORDS_FRONT_BYTES).ok_or(Malformed)?;
    let (memory_kib, passes) = costs(front)?;
    slow(hash, &front[8..], memory_kib, passes)
}

/// Whether the password with this SHA-256 is one of the user's. All passwords of a user have one salt, so the check
/// takes the same time however many there are.
///
/// # Errors
/// `stored` is not the stored form of a user's passwords.
pub fn has_hash(stored: &[u8], hash: &Hash) -> Result<bool, Malformed> {
    let hashes = hashes(stored)?;
    let (found, salt) = (stored_hash(stored, hash)?, &stored[10..PASSWORDS_FRONT_BYTES]);
    let expected = keyed(salt, &found[..]).finalize().into_bytes();
    let is_equal = |known: &Hash| {
        // In constant time, so that nobody learns how much of a keyed hash is right.
        let known = keyed(salt, known).finalize().into_bytes();
        known.iter().zip(&expected).fold(0, |differs, (known, expected)| differs | (known ^ expected)) == 0
    };
    // A user without passwords costs as much as one with a password.
    let first = is_equal(hashes.first().unwrap_or(&[0; HASH_BYTES]));
    Ok(hashes.iter().skip(1).map(is_equal).fold(first && !hashes.is_empty(), |one, other| one | other))
}

/// `stored` with the password whose SHA-256 is `hash` added, unless it is there already.
///
/// # Errors
/// `stored` is not the stored form of a user's passwords, or has as many as it may.
pub fn with_hash(mut stored: Vec<u8>, hash: &Hash) -> Result<Vec<u8>, Malformed> {
    if has_hash(&stored, hash)? {
        return Ok(stored);
    }
    if hashes(&stored)?.len() >= PASSWORDS_MAX {
        return Err(Malformed);
    }
    let more = stored_hash(&stored, hash)?;
    stored.extend_from_slice(&more[..]);
    Ok(stored)
}

/// `stored` without the password whose SHA-256 is `hash`, or whose [shown hash](shown_hashes) is `hash`. `None` if
/// there is no such password.
///
/// # Errors
/// `stored` is not the stored form of a user's passwords.
pub fn without_hash(stored: &[u8], hash: &Hash) -> Result<Option<Vec<u8>>, Malformed> {
    let shown = shown_hashes(stored).iter().position(|shown| shown == hash);
    let place = match shown {
        Some(place) => Some(place),
        None => {
            let found = stored_hash(stored, hash)?;
            hashes(stored)?.iter().position(|known| *known == *found)
        }
    };
    Ok(place.map(|place| {
        let at = PASSWORDS_FRONT_BYTES + place * HASH_BYTES;
        [&stored[..at], &stored[at + HASH_BYTES..]].concat()
    }))
}

/// What is shown of a stored secret, or of each of a user's passwords: 32 bytes that tell whether two of them are the
/// same, and from which nobody can find the secret.
pub fn shown_hashes(stored: &[u8]) -> Vec<Hash> {
    let shown = |hash: &[u8]| keyed(hash, b"shown").finalize().into_bytes().into();
    match hashes(stored) {
        Ok(hashes) => hashes.iter().map(|hash| shown(hash)).collect(),
        Err(Malformed) => vec![shown(stored)],
    }
}

/// The memory and the passes that argon2id is to take, as stored at the beginning of `front`.
fn costs(front: &[u8]) -> Result<(u32, u32), Malformed> {
    let number = |at: usize| front[at..at + 4].iter().rev().fold(0, |sum, &byte| sum << 8 | u32::from(byte));
    let (memory_kib, passes) = (number(0), number(4));
    if memory_kib > MEMORY_KIB_MAX || passes > PASSES_MAX { Err(Malformed) } else { Ok((memory_kib, passes)) }
}

/// A stored secret of the given kind that no secret fits. It is checked for names that nobody has.
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
pub(crate) fn keyed(key: &[u8], message: &[u8]) -> Hmac<Sha256> {
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
        /// Slow hashes made by this thread.
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
        fn any_bytes_are_checked_or_refused(mut stored: Vec<u8>, kind in 0..4_u8) {
            // The cost is not to be huge here: the numbers that would be are refused.
            if stored.len() > 2 {
                (stored[0], stored[1]) = (VERSION, kind);
            }
            if kind == KIND_CHOSEN {
                stored.truncate(CHOSEN_LEN - 1);
            }
            if kind == KIND_PASSWORDS {
                stored.truncate(PASSWORDS_FRONT_BYTES - 1);
            }
            let _ = check(&stored, b"secret");
        }
    }

    #[test]
    fn s4_passwords_of_a_user_are_added_found_and_removed() {
        let (one, two) = (sha256(b"one"), sha256(b"two"));
        let none = no_passwords(&mut random);
        assert_eq!((check(&none, b"one"), check(&none, b"")), (Ok(false), Ok(false)));
        let stored = with_hash(none.clone(), &one).expect("room");
        assert_eq!(with_hash(stored.clone(), &one), Ok(stored.clone()), "once");
        let both = with_hash(stored.clone(), &two).expect("room");
        for (password, is_right) in [(&b"one"[..], true), (b"two", true), (b"three", false), (b"", false)] {
            assert_eq!(check(&both, password), Ok(is_right));
        }
        assert!(is_slow(&both) && both.windows(32).all(|part| part != *one && part != *two));
        let shown = shown_hashes(&both);
        assert!(shown.len() == 2 && shown[0] != *one && both.windows(32).all(|part| part != shown[0]));
        assert_eq!(without_hash(&both, &two), Ok(Some(stored.clone())), "by its SHA-256");
        assert_eq!(without_hash(&both, &shown[1]), Ok(Some(stored)), "and as it is shown");
        assert_eq!(without_hash(&both, &sha256(b"three")), Ok(None));
        let mut full = none;
        full.extend_from_slice(&[1; PASSWORDS_MAX * HASH_BYTES]);
        assert_eq!(with_hash(full, &one), Err(Malformed));
    }

    #[test]
    fn a_stored_secret_cannot_ask_for_more_than_weir_does() {
        let mut stored = dummy(true);
        stored[2..6].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(check(&stored, b"x"), Err(Malformed));
    }
}
