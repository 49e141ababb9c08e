//! A tree's manifest and the file that names it: any bytes decode or are refused. An edit that decodes encodes to the
//! same edit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_lsm::version::{Edit, manifest};

fuzz_target!(|bytes: &[u8]| {
    let _ = manifest::decode(bytes);
    let _ = manifest::decode_current(bytes);
    if let Ok(edit) = Edit::decode(bytes) {
        assert_eq!(Edit::decode(&edit.encode()), Ok(edit));
    }
});
