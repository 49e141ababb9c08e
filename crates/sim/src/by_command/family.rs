//! The types that a value is kept as, and the parts that it is cut into.

/// Bytes of a value that make a part. Long values have some hundred parts, so that rows are spread.
const PART_BYTES: usize = 13;

/// The type that a value is kept as.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    String,
    Hash,
    /// A hash, some of whose fields expire.
    MortalHash,
    List,
    Set,
    SortedSet,
    /// A sorted set whose members have places on Earth.
    Places,
    Stream,
}

impl Family {
    pub(super) fn of(value: &[u8]) -> Self {
        match value.len() % 8 {
            0 => Family::String,
            1 => Family::Hash,
            2 => Family::MortalHash,
            3 => Family::Places,
            4 => Family::List,
            5 => Family::Set,
            6 => Family::SortedSet,
            _ => Family::Stream,
        }
    }

    /// What `TYPE` says.
    pub(super) fn name(self) -> &'static str {
        match self {
            Family::String => "string",
            Family::Hash | Family::MortalHash => "hash",
            Family::List => "list",
            Family::Set => "set",
            Family::SortedSet | Family::Places => "zset",
            Family::Stream => "stream",
        }
    }
}

/// The number that `word` says, or one that no part has if it says none.
pub(super) fn number(word: &[u8]) -> i64 {
    std::str::from_utf8(word).ok().and_then(|text| text.parse().ok()).unwrap_or(i64::MIN)
}

/// The parts of a value, with their numbers.
pub(super) fn parts_of(value: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    value.chunks(PART_BYTES).enumerate().map(|(at, part)| (at.to_string().into_bytes(), part.to_vec())).collect()
}

/// A part with its number in front: the member of a set.
pub(super) fn member((at, part): &(Vec<u8>, Vec<u8>)) -> Vec<u8> {
    [&at[..], b":", part].concat()
}

/// The place on Earth of the part whose number is `at`: longitude and latitude.
pub(super) fn place(at: &[u8]) -> [Vec<u8>; 2] {
    let at = number(at).unsigned_abs();
    [format!("{}.5", at % 170), format!("-{}.25", at % 80)].map(String::into_bytes)
}
