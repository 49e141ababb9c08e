//! Shows that one tenant learns nothing of another by asking, whatever it asks (S5). The questions are made from the
//! table of commands, so that a new command is asked about without a change here.
//!
//! There are two servers at the same frozen moment. In one, Ada has [all that a tenant may have](household), cursors
//! and slow commands. In the other she has never been, and Eve has her connections. Bob asks both the same, with Ada's
//! names in every place. The answers must be the same, byte for byte, and contain nothing that only Ada knows.
//!
//! On a node, [`untouched`] looks at what the same questions do to Ada.

mod household;
mod untouched;

use std::sync::Arc;

use self::household::{CANARY, LISTENERS, Listeners, QUEUE};
use crate::support::table::{WORDS, Way, subcommands};
use crate::support::tenants::{connect, start_at};
use crate::support::{Client, Running, TestClock, encode};
use weir_command::table::{COMMANDS, Command, find};
use weir_gateway::Settings;
use weir_io::Rng;

const KEYS: usize = 60;
/// A key of Ada's that Bob guesses.
const GUESSED: &str = "ada-key-7";

/// One server, and Bob's connection to it.
struct Side {
    weir: Running,
    bob: Client,
    /// Connections of Ada, or of Eve.
    others: Vec<Client>,
}

impl Side {
    fn new(clock: &Arc<TestClock>, other: &str) -> Self {
        // Values are short, so that an offset which happens to be valid does not make a long one.
        let mut settings = Settings::default();
        settings.limits.bulk_bytes_max = 4096;
        let (weir, _) = start_at(clock, settings);
        let bob = connect(&weir, "bob");
        let others = (0..3).map(|_| connect(&weir, other)).collect();
        Self { weir, bob, others }
    }

    /// Sends a question as Bob in his database 0, whatever the last question has left behind.
    fn send(&mut self, way: Way, question: &[String]) {
        let words = |text: &str| encode(&text.split(' ').collect::<Vec<_>>());
        let before =
            ["AUTH bob bob-secret", "HELLO 2", "SELECT 0", "CLIENT REPLY ON", "CLIENT UNPAUSE", "ECHO <begin>"];
        let after = ["RESET", "AUTH bob bob-secret", "CLIENT REPLY ON", "ECHO <end>"];
        let mut bytes: Vec<u8> = before.iter().flat_map(|line| words(line)).collect();
        bytes.extend(way.put(question));
        bytes.extend(after.iter().flat_map(|line| words(line)));
        self.bob.send(&bytes);
    }

    fn answer(&mut self) -> String {
        self.bob.until(b"$7\r\n<begin>\r\n");
        let said = self.bob.until(b"$5\r\n<end>\r\n");
        let local = self.bob.stream.local_addr().expect("a socket").port();
        let mut said = String::from_utf8_lossy(&said).into_owned();
        for port in [local, self.weir.address.port()] {
            said = with_name_of(&said, port);
        }
        // Leaves out the length of a string that contains a port.
        let ported = said.contains("PORT");
        if ported {
            said = said.lines().filter(|line| !line.starts_with('$') && !line.starts_with('=')).collect();
        }
        if self.bob.is_closed {
            self.bob = connect(&self.weir, "bob");
            said.push_str("<closed>");
        }
        said
    }
}

/// Ada moves in: strings in two databases, a name, a cursor under way, slow commands, altered settings.
fn move_in(ada: &mut Client) -> Vec<String> {
    for (database, keys) in [("3", KEYS / 2), ("0", KEYS)] {
        ada.say(&format!("SELECT {database}"));
        for i in 0..keys {
            assert_eq!(ada.say(&format!("SET ada-key-{i} {CANARY}-value-{database}-{i}")), "+OK\r\n");
            assert_eq!(ada.say(&format!("SET {CANARY}-key-{i} {CANARY}-value EX 100000")), "+OK\r\n");
        }
    }
    assert_eq!(ada.say("CLIENT SETNAME ada-app"), "+OK\r\n");
    assert_eq!(ada.say("CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 7"), "+OK\r\n");
    assert!(ada.say(&format!("GET {CANARY}-key-1")).contains(CANARY));
    let page = ada.say("SCAN 0 COUNT 10");
    let cursor = page.split("\r\n").nth(2).expect("a cursor").to_owned();
    let id = ada.say("CLIENT ID")[1..].trim().to_owned();
    let address = ada.stream.local_addr().expect("a socket").to_string();
    let guessed = [GUESSED, QUEUE, "ada", "ada-app", "ada*", "*"].map(str::to_owned);
    guessed.into_iter().chain([cursor, id, address]).collect()
}

/// `said` with a word in the place of `port`, unless it is a part of a longer number.
fn with_name_of(said: &str, port: u16) -> String {
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    let (port, mut named, mut end) = (port.to_string(), String::new(), 0);
    for (place, _) in said.match_indices(&port) {
        let (before, behind) = (said.as_bytes()[..place].last(), said.as_bytes().get(place + port.len()));
        if !is_digit(before) && !is_digit(behind) {
            named += &said[end..place];
            named += "PORT";
            end = place + port.len();
        }
    }
    named + &said[end..]
}

/// Everything that Ada has, as she sees it.
fn inventory(ada: &mut Client) -> Vec<String> {
    let mut all = vec![ada.say("CLIENT GETNAME"), ada.say("CONFIG GET slowlog*")];
    all.push((ada.say("SLOWLOG LEN") != ":0\r\n").to_string());
    for database in [3, 0] {
        ada.say(&format!("SELECT {database}"));
        all.push(ada.say("DBSIZE"));
        all.extend((0..KEYS).map(|i| ada.say(&format!("GET ada-key-{i}"))));
        all.extend((0..KEYS).map(|i| ada.say(&format!("PTTL {CANARY}-key-{i}"))));
    }
    all.extend(household::inventory(ada));
    all
}

struct Pair {
    ada: Side,
    eve: Side,
    asked: usize,
}

impl Pair {
    fn ask(&mut self, way: Way, question: &[String]) {
        self.ada.send(way, question);
        self.eve.send(way, question);
        let (beside_ada, beside_eve) = (self.ada.answer(), self.eve.answer());
        self.asked += 1;
        let told = beside_ada.replace(&question.join(" "), "");
        assert!(!told.contains(CANARY), "{way:?}: {question:?} tells what is Ada's: {beside_ada}");
        assert_eq!(beside_ada, beside_eve, "{way:?}: {question:?} is answered otherwise where Ada has something");
    }
}

/// Lets time go on, even if the test has failed, because a server that ends waits for its connections until a time that
/// must come.
struct Thaw(Arc<TestClock>);

impl Drop for Thaw {
    fn drop(&mut self) {
        self.0.thaw();
    }
}

/// Whether a command waits for others. Such commands have tests of their own, with two tenants among them
/// (`blocking.rs`).
fn may_wait(command: &Command) -> bool {
    command.name == "wait" || command.flags.contains(&"blocking")
}

/// All commands and their subcommands, each with the number of words that it takes at least. Every command is asked for
/// its subcommands on a connection of its own, because some close the connection or make it a stranger's.
fn prefixes(connect: impl Fn() -> Client) -> Vec<(Vec<String>, usize)> {
    let mut prefixes: Vec<(Vec<String>, usize)> = Vec::new();
    for command in COMMANDS {
        let least = command.arity.unsigned_abs() as usize;
        prefixes.push((vec![command.name.to_owned()], least.max(1)));
        let mut found = subcommands(&mut connect(), command.name);
        // Its answer is only random.
        found.retain(|sub| sub != "GENPASS");
        assert!(found.len() != 1, "{}: HELP tells of more than itself", command.name);
        for sub in found {
            let known = weir_command::table::subcommands::find(command.name, sub.as_bytes());
            let least = known.map_or(least, |known| known.arity.unsigned_abs() as usize);
            prefixes.push((vec![command.name.to_owned(), sub], least.max(2)));
        }
    }
    assert!(prefixes.len() > COMMANDS.len() + 40, "the subcommands were found");
    prefixes
}

/// `prefix` filled up to `len` words: with `name` in all places at once, and in each of them alone.
fn filled(prefix: &[String], len: usize, name: &str) -> Vec<Vec<String>> {
    let places = prefix.len()..len;
    let fill = |at: Option<usize>| -> Vec<String> {
        let word = |index| if at.is_none_or(|at| at == index) { name.to_owned() } else { "1".to_owned() };
        prefix.iter().cloned().chain(places.clone().map(word)).collect()
    };
    let alone = if places.len() > 1 { places.clone() } else { 0..0 };
    std::iter::once(None).chain(alone.map(Some)).map(fill).collect()
}

/// A random question that begins with `prefix`.
fn random_question(rng: &mut Rng, prefix: &[String], words: &[String]) -> Vec<String> {
    let more = rng.below(7);
    let word = |_| words[rng.below(words.len() as u64) as usize].clone();
    prefix.iter().cloned().chain((0..more).map(word)).collect()
}

#[test]
fn s5_no_command_tells_anything_of_another_tenant() {
    let clock = TestClock::new();
    clock.freeze();
    let mut pair = Pair { ada: Side::new(&clock, "ada"), eve: Side::new(&clock, "eve"), asked: 0 };
    // Dropped before the servers.
    let _thaw = Thaw(clock);
    let names = move_in(&mut pair.ada.others[0]);
    let mut words = household::move_in(&mut pair.ada.others[0]);
    let before = inventory(&mut pair.ada.others[0]);
    let mut listeners = Listeners::new(&mut pair.ada.others[0], || connect(&pair.ada.weir, "ada"));
    assert_eq!(pair.ada.others[0].say("CLIENT PAUSE 1000000 WRITE"), "+OK\r\n");
    let _in_their_place: Vec<Client> = LISTENERS.iter().map(|_| connect(&pair.eve.weir, "eve")).collect();
    let mut prefixes = prefixes(|| {
        // The other side must have had as many connections as this one.
        drop(connect(&pair.ada.weir, "eve"));
        connect(&pair.eve.weir, "eve")
    });
    // Commands that wait are left out, because no time passes here.
    prefixes.retain(|(prefix, _)| find(prefix[0].as_bytes()).is_none_or(|command| !may_wait(command)));
    // Every name in every place, alone and everywhere at once.
    for (prefix, least) in &prefixes {
        for len in *least..=least + 1 {
            for name in &names {
                filled(prefix, len, name).iter().for_each(|question| pair.ask(Way::Directly, question));
            }
        }
    }
    // And names among words that have a meaning for commands.
    words.extend(names.iter().chain(&listeners.names).cloned().chain(WORDS.map(str::to_owned)));
    let mut rng = Rng::new(1);
    for _ in 0..3000 {
        let (prefix, _) = &prefixes[rng.below(prefixes.len() as u64) as usize];
        let question = random_question(&mut rng, prefix, &words);
        pair.ask(Way::ALL[rng.below(3) as usize], &question);
    }
    eprintln!("{} questions about {} commands and subcommands", pair.asked, prefixes.len());
    let ada = &mut pair.ada.others[0];
    assert_eq!(ada.say("CLIENT UNPAUSE"), "+OK\r\n");
    listeners.check_silence(ada);
    assert_eq!(inventory(ada), before, "nothing of Ada's has changed");
    for other in &mut pair.ada.others {
        assert_eq!(other.say("PING"), "+PONG\r\n", "nor are her connections gone");
    }
}

/// The state with which the generator [`Rng`] has given `number`.
fn state_before(number: u64) -> u64 {
    let undo = |number: u64, shift: u32| number ^ number >> shift ^ number >> (2 * shift);
    // The inverses of the two factors.
    let z = undo(number, 31).wrapping_mul(0x3196_42b2_d24d_8ec3);
    let z = undo(z, 27).wrapping_mul(0x96de_1b17_3f11_9089);
    undo(z, 30).wrapping_sub(0x9e37_79b9_7f4a_7c15)
}

/// The generator can be turned back: from a name that it has given, everybody could go on to the numbers that other
/// tenants draw.
#[test]
fn s5_no_random_number_follows_from_the_name_of_the_run() {
    assert_eq!(state_before(Rng::new(7).next_u64()), 7);
    let weir = Running::start(Settings::default());
    let info = weir.connect().say("INFO server");
    let name = info.lines().find_map(|line| line.strip_prefix("run_id:")).expect("a name");
    assert_eq!(name.len(), 40);
    let part = |at: usize| u64::from_str_radix(&name[at..at + 16], 16).expect("digits");
    let mut rng = Rng::new(state_before(part(0)));
    assert_eq!(rng.next_u64(), part(0));
    assert_ne!(rng.next_u64(), part(16));
}
