//! A look at what comes behind the request that is served: the keys of the `GET`s that a pipeline begins with, so that
//! the store can make their reads ready together. Nothing but time depends on it: what it does not know ends it.

/// Keys of one look: a pipeline of more is looked at again.
const KEYS_MAX: usize = 16;
/// A `GET` as all clients send it, up to the length of the key.
const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$";
/// The letters in it, which may be small ones.
const NAME: std::ops::Range<usize> = 8..11;

/// The keys of the complete `GET`s that `bytes` begins with, in their order, up to [`KEYS_MAX`] of them.
pub(super) fn keys_to_get(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut keys = Vec::new();
    while keys.len() < KEYS_MAX
        && let Some((key, rest)) = key_to_get(bytes)
    {
        keys.push(key);
        bytes = rest;
    }
    keys
}

fn key_to_get(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (head, rest) = bytes.split_at_checked(GET.len())?;
    let is_get = head[..NAME.start] == GET[..NAME.start]
        && head[NAME].eq_ignore_ascii_case(&GET[NAME])
        && head[NAME.end..] == GET[NAME.end..];
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let len: usize = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok().filter(|_| is_get)?;
    let rest = rest[digits..].strip_prefix(b"\r\n")?;
    let (key, rest) = rest.split_at_checked(len)?;
    Some((key, rest.strip_prefix(b"\r\n")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_leading_gets_are_seen() {
        let pipeline =
            b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n*2\r\n$3\r\nget\r\n$2\r\n\r\n\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n*2\r\n$3\r\nGET\r\n$1\r\nc\r\n";
        assert_eq!(keys_to_get(pipeline), [&b"a"[..], b"\r\n"]);
    }

    #[test]
    fn no_more_than_one_look_holds() {
        assert_eq!(keys_to_get(&b"*2\r\n$3\r\nGET\r\n$0\r\n\r\n".repeat(40)).len(), KEYS_MAX);
    }

    #[test]
    fn what_is_cut_off_or_malformed_ends_the_look() {
        let get = b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n";
        for len in 0..get.len() {
            assert!(keys_to_get(&get[..len]).is_empty(), "{len} bytes");
        }
        assert_eq!(keys_to_get(get), [b"key"]);
        for malformed in [
            &b"*2\r\n$3\r\nGET\r\n$99999999999999999999999\r\nkey\r\n"[..],
            b"*2\r\n$3\r\nGET\r\n$-1\r\nkey\r\n",
            b"*2\r\n$3\r\nGET\r\n$\r\nkey\r\n",
            b"*2\r\n$3\r\nGET\r\n$2\r\nkey\r\n",
            b"*1\r\n$3\r\nGET\r\n$3\r\nkey\r\n",
        ] {
            assert!(keys_to_get(malformed).is_empty(), "{malformed:?}");
        }
    }
}
