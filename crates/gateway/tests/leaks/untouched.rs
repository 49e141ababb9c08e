//! Shows that nothing which one tenant asks is told to another one, or touches what that one has (S5).
//!
//! Ada and Bob share a node. Ada has all that a tenant may have, and connections that are told what happens. Bob sends
//! every command, with Ada's names: directly, by a script, and in a transaction.

use super::household::{self, CANARY, Listeners, QUEUE};
use super::{filled, may_wait, prefixes, random_question};
use crate::support::encode;
use crate::support::table::{WORDS, Way};
use crate::support::world::{TOKEN, World};
use weir_command::table::{COMMANDS, find};
use weir_io::Rng;
use weir_node::EngineKind;

/// Marks the end of the answers.
const END: &str = "<the-end>";

/// A question for each of the commands that wait. None of them waits for more than a millisecond.
const SHORT_WAITS: [&str; 11] = [
    "blpop ada-queue 0.001",
    "brpop ada-queue 0.001",
    "blmove ada-queue ada-queue LEFT RIGHT 0.001",
    "brpoplpush ada-queue ada-queue 0.001",
    "blmpop 0.001 1 ada-queue LEFT",
    "bzpopmin ada-queue 0.001",
    "bzpopmax ada-queue 0.001",
    "bzmpop 0.001 1 ada-queue MIN",
    "xread BLOCK 1 STREAMS ada-queue $",
    "xreadgroup GROUP group consumer BLOCK 1 STREAMS ada-queue >",
    "wait 1 1",
];

/// Words that have a meaning for commands, besides [`WORDS`].
const MORE_WORDS: [&str; 14] = [
    "ON", "OFF", "BCAST", "REDIRECT", "PREFIX", "LEFT", "RIGHT", "BEFORE", "MIN", "FIELDS", "STREAMS", "GROUP",
    "MKSTREAM", "$",
];

fn words_of(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// The ways in which the command that begins with `prefix` is asked. Directly, a command that waits might not end.
fn ways(prefix: &[String]) -> Vec<Way> {
    let waits = find(prefix[0].as_bytes()).is_some_and(may_wait);
    Way::ALL.into_iter().filter(|way| !waits || *way != Way::Directly).collect()
}

/// Sends `questions` as `tenant`. Each is answered as if it were the first, whatever those before it have left behind.
/// What Ada alone knows must not be among the answers to others.
fn ask(world: &World, tenant: &str, questions: &[Vec<u8>]) {
    let mut client = world.connect(tenant);
    let mut bytes = Vec::new();
    for question in questions {
        bytes.extend_from_slice(question);
        bytes.extend(encode(&["RESET"]));
        bytes.extend(encode(&[b"AUTH", tenant.as_bytes(), TOKEN]));
        bytes.extend(encode(&["CLIENT", "UNPAUSE"]));
        bytes.extend(encode(&["DEL", QUEUE, "1"]));
    }
    bytes.extend(encode(&["ECHO", END]));
    // A peer that has closed is noticed by reading.
    let _ = std::io::Write::write_all(&mut client.stream, &bytes);
    let told = client.until(format!("${}\r\n{END}\r\n", END.len()).as_bytes());
    let told = String::from_utf8_lossy(&told);
    let asked = String::from_utf8_lossy(&bytes);
    assert!(tenant == "ada" || !told.contains(CANARY), "{tenant} is told what is Ada's:\n{told}\nwho asked\n{asked}");
    // Some questions close the connection.
    if client.is_closed && questions.len() > 1 {
        questions.chunks(1).for_each(|one| ask(world, tenant, one));
    }
}

/// Asks about every command as `tenant`, with [`QUEUE`] in every place. Returns the prefixes of the commands.
fn ask_everything(world: &World, tenant: &str) -> Vec<Vec<String>> {
    let prefixes = prefixes(|| world.connect(tenant));
    for (prefix, least) in &prefixes {
        let mut questions = Vec::new();
        for question in (*least..=least + 1).flat_map(|len| filled(prefix, len, QUEUE)) {
            questions.extend(ways(prefix).into_iter().map(|way| way.put(&question)));
        }
        ask(world, tenant, &questions);
    }
    for command in COMMANDS.iter().filter(|command| may_wait(command)) {
        let line = SHORT_WAITS.into_iter().find(|line| words_of(line)[0] == command.name);
        let line = line.unwrap_or_else(|| panic!("no question that makes {} wait for a short time", command.name));
        ask(world, tenant, &[encode(&words_of(line))]);
    }
    prefixes.into_iter().map(|(prefix, _)| prefix).collect()
}

#[test]
fn s5_no_command_is_told_to_another_tenant_or_touches_what_it_has() {
    for engine in [EngineKind::Lsm, EngineKind::Memory] {
        let world = World::new();
        let mut ada = world.tenant_on(engine, "ada", 1, 0);
        let mut words = household::move_in(&mut ada);
        let before = household::inventory(&mut ada);
        let mut listeners = Listeners::new(&mut ada, || world.connect("ada"));
        drop(world.tenant_on(engine, "bob", 1, 0));
        let prefixes = ask_everything(&world, "bob");
        // And Ada's names among words that have a meaning for commands.
        words.extend(listeners.names.iter().cloned().chain(WORDS.into_iter().chain(MORE_WORDS).map(str::to_owned)));
        let mut rng = Rng::new(1);
        for _ in 0..50 {
            let mut questions = Vec::new();
            for _ in 0..30 {
                let prefix = &prefixes[rng.below(prefixes.len() as u64) as usize];
                let ways = ways(prefix);
                let way = ways[rng.below(ways.len() as u64) as usize];
                questions.push(way.put(&random_question(&mut rng, prefix, &words)));
            }
            ask(&world, "bob", &questions);
        }
        // And what Bob has in all.
        let mut bob = world.connect("bob");
        assert_eq!(bob.say("SET bobs value"), "+OK\r\n");
        assert_eq!(bob.say("REPLCONF capa eof"), "+OK\r\n");
        bob.send(&encode(&["SYNC"]));
        let dump = String::from_utf8_lossy(&bob.rest()).into_owned();
        assert!(dump.contains("bobs") && !dump.contains(CANARY), "{engine}: {dump}");
        listeners.check_silence(&mut ada);
        assert_eq!(household::inventory(&mut ada), before, "{engine}: nothing of Ada's has changed");
    }
}

/// So the test above would notice it if one tenant were told what another one asks.
#[test]
fn within_a_tenant_all_listeners_are_told_of_these_questions() {
    let world = World::new();
    let mut ada = world.tenant_on(EngineKind::Memory, "ada", 1, 0);
    household::move_in(&mut ada);
    let before = household::inventory(&mut ada);
    let mut listeners = Listeners::new(&mut ada, || world.connect("ada"));
    ask_everything(&world, "ada");
    for (first, is_own) in listeners.first_told(&mut ada) {
        assert!(!is_own, "a listener was told nothing before {first:?}");
    }
    assert_ne!(household::inventory(&mut ada), before);
}
