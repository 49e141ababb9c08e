//! Redis requests: any bytes, however they are cut, are requests or one error, within the limits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_gateway::resp::frame::{Limits, Progress, PartialRequest};
use weir_gateway::resp::parse;

fuzz_target!(|input: (Vec<u8>, u8)| {
    let (bytes, step) = input;
    let limits = Limits::default();
    let mut state = PartialRequest::new();
    let (mut from, mut to) = (0, 0);
    while to < bytes.len() {
        to = (to + usize::from(step) + 1).min(bytes.len());
        loop {
            match parse(&bytes[from..to], &limits, &mut state) {
                Ok(Progress::Incomplete) => break,
                Ok(Progress::Nothing(consumed)) => from += consumed,
                Ok(Progress::Request(consumed)) => {
                    let args = state.args(&bytes[from..to]);
                    assert!(args.len() <= limits.args_max);
                    from += consumed;
                }
                Err(_) => return,
            }
            if from == to {
                break;
            }
        }
        // Memory follows the bytes received, whatever lengths they announce.
        assert!(state.memory_bytes() <= 64 * bytes.len() + (64 << 10));
    }
});
