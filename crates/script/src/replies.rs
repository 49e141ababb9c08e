//! Replies of commands, in RESP2 or RESP3, as a tree. They come from Weir's own commands; a damaged reply gives
//! nothing.

/// A reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Status(Vec<u8>),
    Error(Vec<u8>),
    Integer(i64),
    Bulk(Vec<u8>),
    Null,
    /// The null of RESP3.
    Nothing,
    Bool(bool),
    Double(f64),
    BigNumber(Vec<u8>),
    /// A text and, in front of it, its format of three bytes.
    Verbatim(Vec<u8>, Vec<u8>),
    Array(Vec<Reply>),
    Set(Vec<Reply>),
    Map(Vec<(Reply, Reply)>),
}

/// Weir's own replies are nested far less deep.
const DEPTH_MAX: usize = 32;

fn line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    let (line, after) = rest.split_at(end);
    *rest = &after[2..];
    Some(line)
}

fn number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn bytes(rest: &mut &[u8], len: usize) -> Option<Vec<u8>> {
    let (bytes, after) = rest.split_at_checked(len)?;
    *rest = after.strip_prefix(b"\r\n")?;
    Some(bytes.to_vec())
}

impl Reply {
    /// The reply at the front of `rest`.
    pub(crate) fn take(rest: &mut &[u8]) -> Option<Self> {
        Self::take_at(rest, DEPTH_MAX)
    }

    fn take_at(rest: &mut &[u8], depth: usize) -> Option<Self> {
        let depth = depth.checked_sub(1)?;
        let (&kind, after) = rest.split_first()?;
        *rest = after;
        let head = line(rest)?;
        let len = || number(head).and_then(|len| usize::try_from(len).ok());
        Some(match kind {
            b'+' => Reply::Status(head.to_vec()),
            b'-' => Reply::Error(head.to_vec()),
            b':' => Reply::Integer(number(head)?),
            b'$' | b'*' if head == b"-1" => Reply::Null,
            b'_' => Reply::Nothing,
            b'#' => Reply::Bool(head == b"t"),
            b',' => Reply::Double(match head {
                b"inf" => f64::INFINITY,
                b"-inf" => f64::NEG_INFINITY,
                text => std::str::from_utf8(text).ok()?.parse().ok()?,
            }),
            b'(' => Reply::BigNumber(head.to_vec()),
            b'$' => Reply::Bulk(bytes(rest, len()?)?),
            b'=' => {
                let text = bytes(rest, len()?)?;
                Reply::Verbatim(text.get(..3)?.to_vec(), text.get(4..)?.to_vec())
            }
            b'*' => Reply::Array((0..len()?).map(|_| Self::take_at(rest, depth)).collect::<Option<_>>()?),
            b'~' => Reply::Set((0..len()?).map(|_| Self::take_at(rest, depth)).collect::<Option<_>>()?),
            b'%' => {
                let pairs = (0..len()?).map(|_| Some((Self::take_at(rest, depth)?, Self::take_at(rest, depth)?)));
                Reply::Map(pairs.collect::<Option<_>>()?)
            }
            // Attributes of the next reply are not shown to scripts.
            b'|' => {
                for _ in 0..len()?.checked_mul(2)? {
                    Self::take_at(rest, depth)?;
                }
                Self::take_at(rest, depth)?
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn replies_of_both_protocols_are_read() {
        let read = |bytes: &[u8]| Reply::take(&mut &bytes[..]);
        let bulk = |text: &str| Reply::Bulk(text.into());
        assert_eq!(read(b"*2\r\n$1\r\na\r\n:5\r\n"), Some(Reply::Array(vec![bulk("a"), Reply::Integer(5)])));
        assert_eq!(read(b"%1\r\n$1\r\na\r\n,1.5\r\n"), Some(Reply::Map(vec![(bulk("a"), Reply::Double(1.5))])));
        assert_eq!(read(b"=5\r\ntxt:a\r\n"), Some(Reply::Verbatim(b"txt".to_vec(), b"a".to_vec())));
        assert_eq!(read(b"|1\r\n+a\r\n*1\r\n:1\r\n:5\r\n"), Some(Reply::Integer(5)));
        assert_eq!([read(b"$-1\r\n"), read(b"*-1\r\n")], [const { Some(Reply::Null) }; 2]);
        assert_eq!([read(b"$5\r\na\r\n"), read(b"*9\r\n"), read(b"")], [const { None }; 3]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in "[+:$*%~|#=,(_-]{0,3}[0-9]{0,2}(\r\n)?[a-z]{0,4}(\r\n)?") {
            let _ = Reply::take(&mut bytes.as_bytes());
        }
    }
}
