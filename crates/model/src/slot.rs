//! Hash slots: where a key belongs, as in a Redis cluster.

/// Number of slots.
pub const SLOTS: u16 = 16384;

/// The slot of `key`: CRC-16 (XMODEM) of its hash tag, or of the whole key where there is no tag or an empty one. The
/// tag is the text between the first `{` and the next `}`.
pub fn slot(key: &[u8]) -> u16 {
    crc16(tag(key)) % SLOTS
}

/// The one of a tenant's `partitions` that owns `key`: each has a run of slots, all of about the same length.
#[inline]
pub fn partition_of(key: &[u8], partitions: usize) -> usize {
    match partitions {
        1 => 0,
        _ => usize::from(slot(key)) * partitions / usize::from(SLOTS),
    }
}

fn tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else { return key };
    let inside = &key[open + 1..];
    match inside.iter().position(|&byte| byte == b'}') {
        Some(close) if close > 0 => &inside[..close],
        _ => key,
    }
}

const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { crc << 1 ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| crc << 8 ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slots_are_those_of_redis() {
        assert_eq!(crc16(b"123456789"), 0x31c3, "the check value of CRC-16/XMODEM");
        assert_eq!((slot(b""), slot(b"foo"), slot(b"bar"), slot(b"hello")), (0, 12182, 5061, 866));
    }

    #[test]
    fn partitions_have_runs_of_slots() {
        // Slots 0, 12182, 5061 and 866 of 16,384.
        let keys: [&[u8]; 4] = [b"", b"foo", b"bar", b"hello"];
        assert_eq!(keys.map(|key| partition_of(key, 1)), [0; 4]);
        assert_eq!(keys.map(|key| partition_of(key, 3)), [0, 2, 0, 0]);
        assert_eq!(keys.map(|key| partition_of(key, 100)), [0, 74, 30, 5]);
    }

    #[test]
    fn only_a_tag_that_is_not_empty_counts() {
        assert_eq!(slot(b"{user1000}.following"), slot(b"user1000"));
        assert_eq!(tag(b"foo{}{bar}"), b"foo{}{bar}");
        assert_eq!(tag(b"foo{{bar}}zap"), b"{bar");
        assert_eq!(tag(b"foo{bar}{zap}"), b"bar");
        assert_eq!(tag(b"foo{bar"), b"foo{bar");
    }
}
