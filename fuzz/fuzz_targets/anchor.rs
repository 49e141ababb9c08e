//! A partition's anchor: any bytes decode or are refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_node::AnchorSlot;

fuzz_target!(|bytes: &[u8]| {
    let _ = AnchorSlot::decode(bytes);
});
