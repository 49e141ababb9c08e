//! Keys of parts, heads, packed parts, the content of subkeys, and whole rows: any bytes are one, or are refused; a
//! value that was read is written again as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_model::engine::Kind;
use weir_model::parts::audit::Audit;
use weir_model::parts::list::{Chunk, ListDetail, ListPart};
use weir_model::parts::{self, HashDetail, Head, Life, OrderDetail, Packed, Part, Tally, fields};

fuzz_target!(|bytes: &[u8]| {
    if let Some(part) = Part::parse(bytes) {
        assert_eq!(Life::new(part.version).part(part.space, part.subkey), bytes);
    }
    if let Some(head) = Head::decode(bytes) {
        assert_eq!(head.encode(), bytes);
        let mut audit = Audit::default();
        audit.entry(Kind::Head, b"\0row", bytes);
        audit.next_round();
    }
    if let Some(detail) = HashDetail::decode(bytes) {
        assert_eq!(detail.encode(), bytes);
    }
    if let Ok(buckets) = Tally::decode(&[], bytes) {
        assert_eq!(Tally::encode(&buckets), bytes);
    }
    if let Some(detail) = OrderDetail::decode(bytes).filter(|_| bytes != [1, 0]) {
        assert_eq!(detail.encode(), bytes);
    }
    if let Some(detail) = ListDetail::decode(bytes) {
        let mut again = Vec::new();
        detail.encode(&mut again);
        assert_eq!(again, bytes);
    }
    if let Some(part) = ListPart::parse(bytes) {
        assert_eq!(&part.subkey()[..], bytes);
    }
    if let Some(chunk) = Chunk::parse(bytes) {
        let mut again = Vec::new();
        chunk.iter().for_each(|value| Chunk::push(&mut again, value));
        assert_eq!(again, bytes);
    }
    if let Some((first_ms, row)) = fields::agenda_of(bytes) {
        assert_eq!(fields::agenda_key(first_ms, row), bytes);
    }
    let packed = Packed::of(bytes);
    assert_eq!(Packed::is_sound(bytes), packed.iter().collect::<Packed>() == packed);
    let mut rest = bytes;
    if let Some(taken) = parts::take_bytes(&mut rest) {
        let mut again = Vec::new();
        parts::put_bytes(&mut again, &taken);
        assert_eq!([&again, rest].concat(), bytes);
    }
    let mut rest = bytes;
    if let Some(number) = parts::take_f64(&mut rest) {
        let mut again = Vec::new();
        parts::put_f64(&mut again, number).expect("no NaN is stored");
        assert_eq!([&again, rest].concat(), bytes);
    }
    // A head, and parts of its life: three words at a time, as long as their first byte says.
    let mut audit = Audit::default();
    let mut rest = bytes;
    let mut word = || {
        let (&len, behind) = rest.split_first()?;
        let (word, behind) = behind.split_at(usize::from(len).min(behind.len()));
        rest = behind;
        Some(word)
    };
    while let (Some(kind), Some(key), Some(value)) = (word(), word(), word()) {
        let kinds = [Kind::Delete, Kind::Put, Kind::Head, Kind::Cover];
        let kind = kinds[usize::from(kind.first().copied().unwrap_or_default() % 4)];
        audit.entry(kind, key, value);
    }
    audit.next_round();
});
