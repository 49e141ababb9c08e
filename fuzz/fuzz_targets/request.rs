//! A request from another process: any bytes are one, or are refused; a request that was read means the same when it is
//! written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_command::Request;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(request) = Request::decode(bytes) {
        assert_eq!(Request::decode(&request.encode()), Ok(request));
    }
});
