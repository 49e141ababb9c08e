//! Keys of parts, heads and what stands in subkeys: any bytes are one, or are refused; what is read is written again as
//! it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_model::StoredKey;
use weir_model::parts::{self, Head, Life, Part};

fuzz_target!(|bytes: &[u8]| {
    if let Some(part) = Part::parse(bytes) {
        let head = StoredKey::new(part.database, &part.row());
        assert_eq!(Life::new(&head, part.version).part(part.space, part.subkey), bytes);
        assert_eq!(parts::prefix_of(bytes), Some(&parts::cover_key(&head)[..]));
    }
    if let Some(head) = Head::decode(bytes) {
        assert_eq!(head.encode(), bytes);
    }
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
});
