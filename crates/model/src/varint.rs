//! LEB128 variable-length integers, the only ones used in formats: 7 bits a byte, least significant first.

/// Most bytes a `u64` takes.
pub const BYTES_MAX: usize = 10;

/// Appends `value` to `out`.
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// How many bytes `value` takes.
pub const fn len(value: u64) -> usize {
    // One bit at least, and seven bits in each byte.
    ((value | 1).ilog2() / 7 + 1) as usize
}

/// Reads a value from the front of `bytes` and moves past it; `None` if it is cut off or longer than 64 bits.
#[inline]
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = bytes.split_first()?;
    if first < 0x80 {
        *bytes = rest;
        return Some(u64::from(first));
    }
    take_long(bytes)
}

/// Up to eight bytes at once: the lengths and sequence numbers of a hot loop are two to four bytes long.
#[inline]
fn take_long(bytes: &mut &[u8]) -> Option<u64> {
    if let Some(chunk) = bytes.first_chunk() {
        let word = u64::from_le_bytes(*chunk);
        let ends = !word & 0x8080_8080_8080_8080;
        if ends != 0 {
            let len = ends.trailing_zeros() as usize / 8 + 1;
            let groups = word & (0x7f7f_7f7f_7f7f_7f7f >> (64 - 8 * len));
            // Groups of 7 bits in 8, then of 14 in 16, of 28 in 32, of 56 in 64.
            let pairs = (groups & 0x007f_007f_007f_007f) | (groups & 0x7f00_7f00_7f00_7f00) >> 1;
            let quads = (pairs & 0x0000_3fff_0000_3fff) | (pairs & 0x3fff_0000_3fff_0000) >> 2;
            let value = (quads & 0x0fff_ffff) | (quads & 0x0fff_ffff_0000_0000) >> 4;
            *bytes = &bytes[len..];
            return Some(value);
        }
    }
    take_bytewise(bytes)
}

#[cold]
fn take_bytewise(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for (position, &byte) in bytes.iter().enumerate().take(BYTES_MAX) {
        let bits = u64::from(byte & 0x7f);
        if position == BYTES_MAX - 1 && bits > 1 {
            return None;
        }
        value |= bits << (7 * position);
        if byte < 0x80 {
            *bytes = &bytes[position + 1..];
            return Some(value);
        }
    }
    None
}

/// Like [`take`], but `None` for a value that [`put`] would have written in fewer bytes.
pub fn take_shortest(bytes: &mut &[u8]) -> Option<u64> {
    let before = *bytes;
    let value = take(bytes)?;
    let taken = before.len() - bytes.len();
    // A last group of zeros adds nothing to the value.
    if taken > 1 && before[taken - 1] == 0 { None } else { Some(value) }
}

/// Reads a length and that many bytes from the front of `bytes` and moves past both.
#[inline]
pub fn take_slice<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take(bytes)?).ok()?;
    let (slice, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_survives_the_round_trip() {
        for shift in 0..64 {
            for value in [1_u64 << shift, (1_u64 << shift) - 1, u64::MAX >> shift] {
                let mut out = Vec::new();
                put(&mut out, value);
                assert_eq!(len(value), out.len());
                let mut bytes = out.as_slice();
                assert_eq!(take(&mut bytes), Some(value));
                assert!(bytes.is_empty());
                // Reads in both ways: with and without eight bytes left.
                let len = out.len();
                out.extend_from_slice(&[0xff; 8]);
                let mut bytes = out.as_slice();
                assert_eq!(take(&mut bytes), Some(value));
                assert_eq!(bytes.len(), 8);
                out.truncate(len);
                assert_eq!(take(&mut &out[..out.len() - 1]), None, "a cut varint must not decode");
            }
        }
    }

    #[test]
    fn a_longer_form_is_told_from_the_shortest() {
        for (bytes, value) in
            [(&[0][..], Some(0)), (&[0x80, 0], None), (&[0x80, 1], Some(128)), (&[0xff, 0x80, 0], None)]
        {
            assert_eq!(take_shortest(&mut &bytes[..]), value, "{bytes:?}");
            assert!(take(&mut &bytes[..]).is_some());
        }
    }

    #[test]
    fn more_than_64_bits_are_refused() {
        assert_eq!(take(&mut [0xff; 11].as_slice()), None);
        assert_eq!(take(&mut [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2].as_slice()), None);
    }
}
