//! Looks ahead at the requests behind the one that is served: the keys of the `GET`s that a pipeline begins with, or
//! the members that it asks for (`HGET`, `SISMEMBER`), so that the store can prepare these reads together. Only the
//! time that the reads take depends on this. A request that it does not know ends the look.

use weir_command::table;

/// Number of keys in one look. A longer pipeline is looked at again.
const KEYS_MAX: usize = 16;
/// A `GET` as all clients send it, up to the length of the key.
const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$";
/// The position of the command's name, whose letters may be small ones.
const NAME: std::ops::Range<usize> = 8..11;
/// The bytes with which a request of three words begins.
const THREE_WORDS: &[u8] = b"*3\r\n";

/// The key of a row, and the name of one of its members.
type Asked<'b> = (&'b [u8], &'b [u8]);

/// The keys of the complete `GET`s that `bytes` begins with, in their order, up to [`KEYS_MAX`] of them.
pub(super) fn keys_to_get(bytes: &[u8]) -> Vec<&[u8]> {
    leading(bytes, key_to_get)
}

/// The keys and members of the complete requests at the beginning of `bytes` that read one member each, in their order,
/// up to [`KEYS_MAX`] of them.
pub(super) fn members_to_read(bytes: &[u8]) -> Vec<Asked<'_>> {
    leading(bytes, member_to_read)
}

/// Applies `take` to the front of `bytes` again and again, and collects what it finds.
fn leading<'b, T>(mut bytes: &'b [u8], take: impl Fn(&'b [u8]) -> Option<(T, &'b [u8])>) -> Vec<T> {
    let mut found = Vec::new();
    while found.len() < KEYS_MAX
        && let Some((next, rest)) = take(bytes)
    {
        found.push(next);
        bytes = rest;
    }
    found
}

fn key_to_get(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (head, _) = bytes.split_at_checked(GET.len())?;
    let is_get = head[..NAME.start] == GET[..NAME.start]
        && head[NAME].eq_ignore_ascii_case(&GET[NAME])
        && head[NAME.end..] == GET[NAME.end..];
    // From the dollar in front of the key's length on.
    if is_get { word(&bytes[GET.len() - 1..]) } else { None }
}

fn member_to_read(bytes: &[u8]) -> Option<(Asked<'_>, &[u8])> {
    let words = bytes.strip_prefix(THREE_WORDS)?;
    // `SET`, which is sent most often, is ruled out at once.
    if words.starts_with(b"$3\r\n") {
        return None;
    }
    let (name, rest) = word(words)?;
    let (key, rest) = word(rest)?;
    let (member, rest) = word(rest)?;
    let command = table::find(name).filter(|command| !command.writes() && command.takes(3))?;
    (command.first_member(3) == Some(2)).then_some(((key, member), rest))
}

/// The word at the beginning of `bytes`, and the bytes behind it.
fn word(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = bytes.strip_prefix(b"$")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let len: usize = match rest[..digits] {
        // Most words are as short as that.
        [ones] => (ones - b'0').into(),
        [tens, ones] => (10 * (tens - b'0') + (ones - b'0')).into(),
        ref digits => std::str::from_utf8(digits).ok()?.parse().ok()?,
    };
    let (word, rest) = rest[digits..].strip_prefix(b"\r\n")?.split_at_checked(len)?;
    Some((word, rest.strip_prefix(b"\r\n")?))
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
    fn the_members_that_are_read_first_are_seen() {
        let pipeline =
            b"*3\r\n$4\r\nHGET\r\n$1\r\nh\r\n$1\r\nf\r\n*3\r\n$9\r\nsismember\r\n$1\r\ns\r\n$2\r\n\r\n\r\n*3\r\n$4\r\nSADD\r\n$1\r\ns\r\n$1\r\nm\r\n";
        assert_eq!(members_to_read(pipeline), [(&b"h"[..], &b"f"[..]), (b"s", b"\r\n")]);
        for other in [
            &b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n"[..],
            b"*3\r\n$4\r\nHSET\r\n$1\r\nh\r\n$1\r\nf\r\n",
            b"*3\r\n$6\r\nLINDEX\r\n$1\r\nl\r\n$1\r\n0\r\n",
            b"*2\r\n$4\r\nHGET\r\n$1\r\nh\r\n",
            b"*3\r\n$4\r\nHGET\r\n$1\r\nh\r\n$2\r\nf\r\n",
        ] {
            assert!(members_to_read(other).is_empty(), "{}", other.escape_ascii());
        }
        let one = b"*3\r\n$4\r\nHGET\r\n$1\r\nh\r\n$1\r\nf\r\n";
        assert!((0..one.len()).all(|len| members_to_read(&one[..len]).is_empty()));
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
