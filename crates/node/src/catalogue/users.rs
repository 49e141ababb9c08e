//! Secrets and users in the catalogue's bytes, described in `docs/format/catalogue.md`.

use weir_model::varint;

use crate::tenant::{SECRET_BYTES_MAX, StoredSecret, StoredUser, check_users};

/// Appends a secret: 0 = none, else its length plus one, and its bytes.
pub(super) fn put_secret(out: &mut Vec<u8>, secret: Option<&StoredSecret>) {
    varint::put(out, secret.map_or(0, |secret| secret.as_bytes().len() as u64 + 1));
    out.extend(secret.iter().flat_map(|secret| secret.as_bytes()));
}

/// Takes what [`put_secret`] has appended; `None` if the bytes are no secret.
pub(super) fn take_secret(rest: &mut &[u8]) -> Option<Option<StoredSecret>> {
    let Some(len) = varint::take(rest)?.checked_sub(1) else { return Some(None) };
    let len = usize::try_from(len).ok().filter(|&len| len <= SECRET_BYTES_MAX)?;
    let (secret, after) = rest.split_at_checked(len)?;
    *rest = after;
    Some(Some(StoredSecret::new(secret)))
}

/// Appends users.
pub(super) fn put_users(out: &mut Vec<u8>, users: &[StoredUser]) {
    varint::put(out, users.len() as u64);
    for StoredUser { name, rules, secret } in users {
        put_bytes(out, name);
        varint::put(out, rules.len() as u64);
        rules.iter().for_each(|rule| put_bytes(out, rule));
        put_secret(out, secret.as_ref());
    }
}

/// Takes what [`put_users`] has appended; `None` if the bytes are no users, or more than a tenant may have.
pub(super) fn take_users(rest: &mut &[u8]) -> Option<Vec<StoredUser>> {
    // Grows with the bytes that are there, not with what is announced.
    let mut users = Vec::new();
    for _ in 0..varint::take(rest)? {
        let name = varint::take_slice(rest)?.into();
        let mut rules = Vec::<Box<[u8]>>::new();
        for _ in 0..varint::take(rest)? {
            rules.push(varint::take_slice(rest)?.into());
        }
        users.push(StoredUser { name, rules: rules.into(), secret: take_secret(rest)? });
    }
    check_users(&users).ok()?;
    Some(users)
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    varint::put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
