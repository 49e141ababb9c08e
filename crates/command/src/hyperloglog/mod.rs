//! HyperLogLogs: strings that tell about how many different elements were counted. They are in Redis' own format, so
//! that a value means the same on every server.
//!
//! ```text
//! value  := "HYLL" | encoding u8 | 0 0 0 | count u64 little-endian | registers
//! encoding := 0 dense | 1 sparse
//! ```
//!
//! The hash of an element gives the register that the element belongs to; the rest of the hash gives its rank. A
//! register keeps the highest rank that it has met. The highest bit of `count` is set if the count has to be computed
//! anew.
//!
//! | | |
//! |---|---|
//! | [`hash`] | the register of an element, and its rank |
//! | [`sparse`] | registers as runs: for few elements |
//! | [`dense`] | registers of six bits each |
//! | [`count`](mod@count) | the number of elements that registers stand for |

mod count;
mod dense;
mod hash;
mod sparse;

pub use self::count::count;
pub use self::dense::REGISTER_MAX;
use self::hash::place_of;
use self::sparse::Raised;
pub use self::sparse::describe;

/// How many registers there are.
pub const REGISTERS: usize = 1 << 14;

/// The highest rank of each register.
pub type Registers = [u8; REGISTERS];

const MAGIC: &[u8; 4] = b"HYLL";
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
const ENCODING_AT: usize = 4;
/// The last byte of the count, which has its highest bits.
const STALE_AT: usize = 15;
const STALE: u8 = 0x80;
const HEADER_BYTES: usize = 16;
const DENSE_BYTES: usize = HEADER_BYTES + dense::BYTES;
/// Registers as runs never take more bytes than this.
const SPARSE_BYTES_MAX: usize = HEADER_BYTES + 2 * REGISTERS;

/// A value looks like a HyperLogLog, but not all of its registers are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupted;

/// Whether `value` looks like a HyperLogLog.
pub fn is_hyperloglog(value: &[u8]) -> bool {
    match value.get(ENCODING_AT).filter(|_| value.starts_with(MAGIC) && value.len() >= HEADER_BYTES) {
        Some(&DENSE) => value.len() == DENSE_BYTES,
        encoding => encoding == Some(&SPARSE),
    }
}

/// The number of elements that `value`, a HyperLogLog, has stored, if that is still valid.
pub fn known_count(value: &[u8]) -> Option<u64> {
    let count: [u8; 8] = value.get(HEADER_BYTES - 8..HEADER_BYTES)?.try_into().ok()?;
    (value[STALE_AT] & STALE == 0).then(|| u64::from_le_bytes(count))
}

/// Raises `registers` to those of `value`, a HyperLogLog, where the latter are higher.
///
/// # Errors
/// As [`Corrupted`] says. Some registers may have been raised already.
pub fn merge(value: &[u8], registers: &mut Registers) -> Result<(), Corrupted> {
    match is_dense(value) {
        true => dense::merge(&value[HEADER_BYTES..], registers),
        false if value.len() > SPARSE_BYTES_MAX => return Err(Corrupted),
        false => sparse::merge(value, registers)?,
    }
    Ok(())
}

/// Whether `value`, a HyperLogLog, is dense: all registers are stored one behind the other.
pub fn is_dense(value: &[u8]) -> bool {
    value.get(ENCODING_AT) == Some(&DENSE)
}

/// A HyperLogLog that is being changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HyperLogLog(Vec<u8>);

impl HyperLogLog {
    /// A HyperLogLog that has not counted anything.
    pub fn empty() -> Self {
        let mut value = [&MAGIC[..], &[SPARSE], &[0; HEADER_BYTES - ENCODING_AT - 1]].concat();
        sparse::put_run(&mut value, 0, REGISTERS);
        Self(value)
    }

    /// The HyperLogLog in `value`, if it looks like one.
    pub fn of(value: &[u8]) -> Option<Self> {
        is_hyperloglog(value).then(|| Self(value.to_vec()))
    }

    /// The HyperLogLog as a value.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Counts `element`; gives whether that has changed anything.
    ///
    /// # Errors
    /// See [`Corrupted`].
    pub fn add(&mut self, element: &[u8]) -> Result<bool, Corrupted> {
        let (index, rank) = place_of(element);
        self.raise(index, rank)
    }

    /// Raises the register `index` to `rank`; gives whether it was lower.
    ///
    /// # Errors
    /// See [`Corrupted`].
    pub fn raise(&mut self, index: usize, rank: u8) -> Result<bool, Corrupted> {
        if !is_dense(&self.0) {
            if self.0.len() > SPARSE_BYTES_MAX {
                return Err(Corrupted);
            }
            match sparse::raise(&mut self.0, index, rank)? {
                Raised::Higher => return Ok(true),
                Raised::Same => return Ok(false),
                Raised::NoRoom => drop(self.densify()?),
            }
        }
        Ok(dense::raise(&mut self.0[HEADER_BYTES..], index, rank))
    }

    /// Makes the HyperLogLog dense; gives whether it was sparse.
    ///
    /// # Errors
    /// See [`Corrupted`].
    pub fn densify(&mut self) -> Result<bool, Corrupted> {
        if is_dense(&self.0) {
            return Ok(false);
        }
        let mut registers = [0; REGISTERS];
        merge(&self.0, &mut registers)?;
        self.0.truncate(HEADER_BYTES);
        self.0[ENCODING_AT] = DENSE;
        self.0.resize(DENSE_BYTES, 0);
        for (index, &rank) in registers.iter().enumerate().filter(|(_, rank)| **rank > 0) {
            dense::raise(&mut self.0[HEADER_BYTES..], index, rank);
        }
        Ok(true)
    }

    /// Marks the stored count as invalid, because registers have changed.
    pub fn forget_count(&mut self) {
        self.0[STALE_AT] |= STALE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn registers(value: &[u8]) -> Result<Registers, Corrupted> {
        let mut registers = [0; REGISTERS];
        merge(value, &mut registers).map(|()| registers)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Compared with an array of registers: with many elements for the same few registers, so that runs are split
        /// and joined.
        #[test]
        fn both_forms_keep_the_highest_rank_of_each_register(
            steps in proptest::collection::vec((0..60_usize, 1..5_u8), 0..300),
            far in proptest::collection::vec((0..REGISTERS, 1..52_u8), 0..20),
        ) {
            let (mut sparse, mut dense, mut model) = (HyperLogLog::empty(), HyperLogLog::empty(), [0; REGISTERS]);
            prop_assert_eq!((dense.densify(), dense.densify()), (Ok(true), Ok(false)));
            for (index, rank) in steps.into_iter().chain(far) {
                let is_higher = rank > model[index];
                model[index] = rank.max(model[index]);
                prop_assert_eq!(sparse.raise(index, rank), Ok(is_higher));
                prop_assert_eq!(dense.raise(index, rank), Ok(is_higher));
                prop_assert!(is_hyperloglog(sparse.as_bytes()));
            }
            for value in [&sparse, &dense] {
                prop_assert!(registers(value.as_bytes()) == Ok(model));
            }
            sparse.densify().expect("it is sound");
            prop_assert_eq!(sparse, dense);
        }

        #[test]
        fn any_bytes_are_refused_or_can_be_changed(body: Vec<u8>, encoding in 0..3_u8, element: Vec<u8>) {
            let value = [&MAGIC[..], &[encoding], &[0; 11], &body].concat();
            if let Some(mut changed) = HyperLogLog::of(&value) {
                let _ = (changed.add(&element), registers(changed.as_bytes()), changed.densify());
            }
        }
    }

    /// From a Redis 7.0.15: `PFADD k a b c`.
    #[test]
    fn elements_are_counted_as_in_redis() {
        let mut value = HyperLogLog::empty();
        for element in [b"a", b"b", b"c"] {
            assert_eq!(value.add(element), Ok(true));
            assert_eq!(value.add(element), Ok(false));
        }
        assert_eq!(describe(value.as_bytes()), Ok("Z:8436 v:1,1 Z:4274 v:2,1 Z:3068 v:1,1 Z:603".to_owned()));
        assert_eq!((known_count(value.as_bytes()), count(&registers(value.as_bytes()).expect("sound"))), (Some(0), 3));
        value.forget_count();
        assert_eq!(known_count(value.as_bytes()), None);
    }

    #[test]
    fn what_has_too_few_registers_is_corrupted_and_what_is_no_value_is_none() {
        let mut value = HyperLogLog::empty();
        value.0.pop();
        assert_eq!((registers(value.as_bytes()), value.add(b"a"), value.densify()), three_times(Err(Corrupted)));
        value.0.truncate(HEADER_BYTES);
        assert_eq!(value.add(b"a"), Err(Corrupted));
        value.0.pop();
        assert!(!is_hyperloglog(value.as_bytes()) && !is_hyperloglog(b"HYLL") && !is_hyperloglog(b""));
        value.0.resize(DENSE_BYTES, 0);
        value.0[ENCODING_AT] = DENSE;
        assert!(is_hyperloglog(value.as_bytes()) && !is_hyperloglog(&value.as_bytes()[1..]));
        value.0[ENCODING_AT] = 2;
        assert!(!is_hyperloglog(value.as_bytes()));
    }

    fn three_times<A, B, C>(
        error: Result<(), Corrupted>,
    ) -> (Result<A, Corrupted>, Result<B, Corrupted>, Result<C, Corrupted>) {
        let error = error.expect_err("an error");
        (Err(error), Err(error), Err(error))
    }
}
