//! The catalogue of tenants: any bytes decode or are refused. An edit that decodes encodes to the same edit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_journal::Entry;
use weir_node::catalogue::CatalogueEdit;

fuzz_target!(|bytes: &[u8]| {
    let _ = weir_journal::decode::<CatalogueEdit>(bytes);
    if let Ok(edit) = CatalogueEdit::decode(bytes) {
        assert_eq!(CatalogueEdit::decode(&edit.encode()), Ok(edit));
    }
});
