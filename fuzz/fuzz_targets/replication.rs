//! The bytes that a source sends, and that a server answers: any are taken or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_transfer::resp::{Requests, take_reply, take_request};

fuzz_target!(|bytes: &[u8]| {
    let _ = take_reply(&mut &bytes[..]);
    let mut rest = bytes;
    while let Ok(Some(words)) = take_request(&mut rest) {
        if words.is_empty() {
            continue;
        }
        let mut again = Requests::default();
        again.push(&words);
        assert_eq!(take_request(&mut again.bytes_from(0)).ok().flatten(), Some(words));
    }
});
