//! A log's records, the tags of a shared log's records, and segment headers: any bytes decode or are refused. A tag
//! that decodes, encodes to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_log::{RecordTag, decode_segment_header};
use weir_log::record::{Decoded, decode, find_mark};

fuzz_target!(|input: (u32, Vec<u8>)| {
    let (seed, bytes) = input;
    if let Decoded::Record(record) = decode(&bytes, seed) {
        assert!(record.encoded_len() <= bytes.len());
    }
    let _ = find_mark(&bytes, bytes.len(), seed, 1);
    let _ = decode_segment_header(&bytes);
    if let Ok((tag, payload)) = RecordTag::decode(&bytes) {
        assert_eq!([&tag.encode()[..], payload].concat(), bytes);
    }
});
