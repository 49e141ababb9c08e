//! What the clients of one partition have written. Each value begins with the number of its write, so that whoever
//! reads it can tell whether a later one was lost.

use std::collections::BTreeMap;

/// Bytes of a number.
const NUMBER_BYTES: usize = 8;

/// The writes of one partition, which come one after the other.
#[derive(Debug, Default)]
pub struct Written {
    /// Writes that have begun.
    begun: u64,
    /// For each key the number of the last write that was acknowledged.
    acknowledged: BTreeMap<Vec<u8>, u64>,
}

impl Written {
    /// Begins a write of `value`, which has eight bytes at least. Gives its number, and the value with this number.
    pub fn begin(&mut self, value: &[u8]) -> (u64, Vec<u8>) {
        self.begun += 1;
        let mut numbered = value.to_vec();
        numbered[..NUMBER_BYTES].copy_from_slice(&self.begun.to_be_bytes());
        (self.begun, numbered)
    }

    /// Notes that write `number`, of `key`, was acknowledged.
    pub fn acknowledge(&mut self, key: &[u8], number: u64) {
        self.acknowledged.insert(key.to_vec(), number);
    }

    /// The number of the last write of `key` that was acknowledged, if there was any.
    pub fn last(&self, key: &[u8]) -> Option<u64> {
        self.acknowledged.get(key).copied()
    }

    /// Whether a read that began when `last` was acknowledged may have found `value`: of that write, or of a later one.
    pub fn is_kept(&self, last: u64, value: Option<&[u8]>) -> bool {
        value.and_then(number).is_some_and(|number| (last..=self.begun).contains(&number))
    }

    /// All keys that were acknowledged, each with the number of its last write.
    pub fn all(&self) -> Vec<(Vec<u8>, u64)> {
        self.acknowledged.iter().map(|(key, &number)| (key.clone(), number)).collect()
    }
}

/// The number with which `value` begins.
fn number(value: &[u8]) -> Option<u64> {
    value.first_chunk::<NUMBER_BYTES>().map(|bytes| u64::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_before_the_last_acknowledged_write_is_lost() {
        let mut written = Written::default();
        let [first, second] = [(); 2].map(|()| {
            let (number, value) = written.begin(&[9; 12]);
            written.acknowledge(b"key", number);
            value
        });
        let last = written.last(b"key").expect("acknowledged");
        assert_eq!((last, second.len(), written.all()), (2, 12, vec![(b"key".to_vec(), 2)]));
        assert!(written.is_kept(last, Some(&second)));
        let others: [Option<&[u8]>; 4] = [Some(&first), Some(&[9; 12]), Some(&[0; 3]), None];
        for lost in others {
            assert!(!written.is_kept(last, lost), "{lost:?}");
        }
        // It is on its way, and may be found before it is acknowledged.
        let (_, third) = written.begin(&[9; 12]);
        assert!(written.is_kept(last, Some(&third)) && written.last(b"other").is_none());
    }
}
