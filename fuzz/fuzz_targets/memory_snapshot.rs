//! The memory engine's files: any bytes decode or are refused, and the rows of a stream do not depend on the pieces
//! that the stream comes in.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_memory::{manifest, snapshot};

fn rows(bytes: &[u8], piece: usize) -> Result<(Vec<(Vec<u8>, u64, Vec<u8>)>, snapshot::End), &'static str> {
    let (mut decoder, mut rows) = (snapshot::Decoder::default(), Vec::new());
    for piece in bytes.chunks(piece) {
        decoder.feed(piece, |_, key, expire_at_ms, value| rows.push((key.to_vec(), expire_at_ms, value.to_vec())))?;
    }
    decoder.finish().map(|end| (rows, end))
}

fuzz_target!(|bytes: &[u8]| {
    let _ = manifest::decode(bytes);
    let _ = snapshot::decode_block(bytes, snapshot::BlockId { file: 1, block: 0 });
    assert_eq!(rows(bytes, 1), rows(bytes, 64 << 10));
});
