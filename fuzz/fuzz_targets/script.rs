//! Scripts, and the bytes that their libraries read: any source ends by itself or is ended, and any bytes are read or
//! refused. The first byte says what the rest is; texts in it end at a byte 255.
#![no_main]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use libfuzzer_sys::fuzz_target;
use weir_command::error::{Error, Outcome};
use weir_command::reply::Protocol;
use weir_script::{Bridge, Limits, Machine, Run, Script, What, World};

/// The scripts that run with the texts as `ARGV`; if the first byte chooses none of them, the rest is a script.
const CALLS: [&str; 7] = [
    "return {pcall(cjson.decode, ARGV[1])}",
    "return {pcall(cmsgpack.unpack, ARGV[1])}",
    "return {pcall(struct.unpack, ARGV[1], ARGV[2])}",
    "return {pcall(struct.pack, ARGV[1], ARGV[2], 1, 2, 3)}",
    "return {pcall(string.find, ARGV[1], ARGV[2])}",
    "return {pcall(string.gsub, ARGV[1], ARGV[2], ARGV[3])}",
    "return cjson.encode(cjson.decode(ARGV[1]))",
];

struct Nothing;

impl Bridge for Nothing {
    fn call(&mut self, words: Vec<Vec<u8>>, _: Protocol) -> Outcome<Vec<u8>> {
        Ok(format!("*{}\r\n:1\r\n", words.len().min(1)).into_bytes())
    }
}

struct Looks(AtomicU32);

impl World for Looks {
    fn may(&self, _: &[Vec<u8>]) -> Option<bool> {
        Some(true)
    }

    fn log(&self, _: u8, _: &[u8]) {}

    fn left_out(&self, _: &str, _: &Error) {}

    fn why_end(&self) -> Option<Error> {
        (self.0.fetch_add(1, Ordering::Relaxed) >= 1000).then(|| Error::new("ERR it was ended"))
    }

    fn no_memory(&self) -> Option<Error> {
        None
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, rest)) = bytes.split_first() else { return };
    let mut argv: Vec<Vec<u8>> = rest.split(|&byte| byte == 255).map(<[u8]>::to_vec).collect();
    argv.resize(3, Vec::new());
    let source = CALLS.get(usize::from(kind)).map_or(rest, |call| call.as_bytes());
    let (Ok(script), Ok(mut machine)) = (Script::parse(source), Machine::new()) else { return };
    let what = What::Script(Arc::new(script));
    let run = Run { what, keys: vec![b"k".to_vec()], argv, seed: 0, protocol: Protocol::Resp3 };
    let world: Arc<dyn World> = Arc::new(Looks(AtomicU32::new(0)));
    let limits = Limits { instructions: 100, memory_bytes: 8 << 20 };
    if let Ok(replies) = machine.run(&run, limits, &mut Nothing, &world) {
        assert!(!replies.to_vec().is_empty());
    }
    // Nothing of the script is left.
    let after = Run { what: What::Script(Arc::new(Script::parse(b"return 1").expect("a script"))), ..run };
    let world: Arc<dyn World> = Arc::new(Looks(AtomicU32::new(0)));
    let replies = machine.run(&after, limits, &mut Nothing, &world).expect("it runs");
    assert_eq!(replies.to_vec(), b":1\r\n");
});
