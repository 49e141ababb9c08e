//! Certificates of clients: any bytes have names or none.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let names = weir_gateway::tls::names(bytes);
    assert!(names.iter().map(String::len).sum::<usize>() <= 2 * bytes.len());
});
