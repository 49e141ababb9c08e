//! A log's records, the tags of a shared log's records, and segment headers: any bytes decode or are refused. A tag of
//! the present version that decodes encodes to the same bytes, and the members' parts of a write add up to no more than
//! the write.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_log::{RecordTag, bytes_by_member, decode_segment_header};
use weir_log::record::{Decoded, decode, find_mark};

fuzz_target!(|input: (u32, Vec<u8>)| {
    let (seed, bytes) = input;
    if let Decoded::Record(record) = decode(&bytes, seed) {
        assert!(record.encoded_len() <= bytes.len());
        assert!(record.link().is_none() || record.mark().is_none());
    }
    let _ = find_mark(&bytes, bytes.len(), seed, 1);
    let _ = decode_segment_header(&bytes);
    if let Ok((RecordTag { member, identity: Some(identity), index }, payload)) = RecordTag::decode(&bytes) {
        assert_eq!([&RecordTag::encode(member, identity, index)[..], payload].concat(), bytes);
    }
    assert!(bytes_by_member(&bytes).map(|(_, part)| part).sum::<u64>() <= bytes.len() as u64);
});
