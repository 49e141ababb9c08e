//! Rules of users: any words are rules or refused. A user's rules, written as words, make the same rules again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_command::acl::{Rules, merged};

fuzz_target!(|bytes: &[u8]| {
    let Ok(words) = merged(bytes.split(|&byte| byte == b'\n')) else { return };
    let mut rules = Rules::default();
    for word in &words {
        let _ = rules.apply(word);
    }
    let told = rules.words();
    let mut again = Rules::default();
    for word in &told {
        assert!(again.apply(word).is_ok(), "{:?}", String::from_utf8_lossy(word));
    }
    assert_eq!(again.words(), told);
});
