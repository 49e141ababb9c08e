//! Replies of commands, in RESP2 or RESP3, read piece by piece: a reply of millions of elements takes no further memory
//! on its way to Lua. They come from Weir's own commands; a damaged reply gives nothing.

/// A reply without elements, or the front of one: how many elements follow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Piece<'a> {
    Status(&'a [u8]),
    Error(&'a [u8]),
    Integer(i64),
    Bulk(&'a [u8]),
    Null,
    /// The null of RESP3.
    Nothing,
    Bool(bool),
    Double(f64),
    BigNumber(&'a [u8]),
    /// A text and, in front of it, its format of three bytes.
    Verbatim(&'a [u8], &'a [u8]),
    Array(usize),
    Set(usize),
    /// The number of pairs.
    Map(usize),
}

/// How deep replies are nested at most. Weir's own are nested far less deep.
pub(crate) const DEPTH_MAX: usize = 32;

fn line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    let (line, after) = rest.split_at(end);
    *rest = &after[2..];
    Some(line)
}

fn number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn bytes<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (bytes, after) = rest.split_at_checked(len)?;
    *rest = after.strip_prefix(b"\r\n")?;
    Some(bytes)
}

impl<'a> Piece<'a> {
    /// Takes the piece at the front of `rest`.
    pub(crate) fn take(rest: &mut &'a [u8]) -> Option<Self> {
        Self::take_at(rest, DEPTH_MAX)
    }

    fn take_at(rest: &mut &'a [u8], depth: usize) -> Option<Self> {
        let depth = depth.checked_sub(1)?;
        let (&kind, after) = rest.split_first()?;
        *rest = after;
        let head = line(rest)?;
        let len = || number(head).and_then(|len| usize::try_from(len).ok());
        Some(match kind {
            b'+' => Piece::Status(head),
            b'-' => Piece::Error(head),
            b':' => Piece::Integer(number(head)?),
            b'$' | b'*' if head == b"-1" => Piece::Null,
            b'_' => Piece::Nothing,
            b'#' => Piece::Bool(head == b"t"),
            b',' => Piece::Double(match head {
                b"inf" => f64::INFINITY,
                b"-inf" => f64::NEG_INFINITY,
                text => std::str::from_utf8(text).ok()?.parse().ok()?,
            }),
            b'(' => Piece::BigNumber(head),
            b'$' => Piece::Bulk(bytes(rest, len()?)?),
            b'=' => {
                let text = bytes(rest, len()?)?;
                Piece::Verbatim(text.get(..3)?, text.get(4..)?)
            }
            b'*' => Piece::Array(len()?),
            b'~' => Piece::Set(len()?),
            b'%' => Piece::Map(len()?),
            // Attributes of the next reply are not shown to scripts.
            b'|' => {
                for _ in 0..len()?.checked_mul(2)? {
                    skip(rest, depth)?;
                }
                Self::take_at(rest, depth)?
            }
            _ => return None,
        })
    }
}

/// Goes past the reply at the front of `rest`.
fn skip(rest: &mut &[u8], depth: usize) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    let elements = match Piece::take_at(rest, depth)? {
        Piece::Array(len) | Piece::Set(len) => len,
        Piece::Map(len) => len.checked_mul(2)?,
        _ => 0,
    };
    (0..elements).try_for_each(|_| skip(rest, depth))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The pieces up to the first that is damaged.
    fn pieces(mut rest: &[u8]) -> Vec<Piece<'_>> {
        std::iter::from_fn(|| Piece::take(&mut rest)).collect()
    }

    #[test]
    fn replies_of_both_protocols_are_read() {
        assert_eq!(pieces(b"*2\r\n$1\r\na\r\n:5\r\n"), [Piece::Array(2), Piece::Bulk(b"a"), Piece::Integer(5)]);
        assert_eq!(pieces(b"%1\r\n$1\r\na\r\n,1.5\r\n"), [Piece::Map(1), Piece::Bulk(b"a"), Piece::Double(1.5)]);
        assert_eq!(pieces(b"=5\r\ntxt:a\r\n"), [Piece::Verbatim(b"txt", b"a")]);
        assert_eq!(pieces(b"|1\r\n+a\r\n*1\r\n:1\r\n:5\r\n"), [Piece::Integer(5)]);
        assert_eq!(pieces(b"$-1\r\n*-1\r\n"), [Piece::Null; 2]);
        for damaged in [&b"$5\r\na\r\n"[..], b"|9\r\n:5\r\n", b""] {
            assert!(pieces(damaged).is_empty());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in "[+:$*%~|#=,(_-]{0,3}[0-9]{0,2}(\r\n)?[a-z]{0,4}(\r\n)?") {
            pieces(bytes.as_bytes());
        }
    }
}
