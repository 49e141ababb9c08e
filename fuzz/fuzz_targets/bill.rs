//! The bill: any bytes decode or are refused. A record that decodes encodes to the same record.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_journal::Entry;
use weir_node::BillEdit;

fuzz_target!(|bytes: &[u8]| {
    let _ = weir_journal::decode::<BillEdit>(bytes);
    if let Ok(record) = BillEdit::decode(bytes) {
        assert_eq!(BillEdit::decode(&record.encode()), Ok(record));
    }
});
