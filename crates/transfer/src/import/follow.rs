//! Follows a source: does its commands to a tenant, in order.

use std::pin::pin;
use std::sync::atomic::Ordering;

use futures_util::future::{Either, select};
use tokio::sync::watch;

use super::partitions::{Words, apart, is_about_own};
use super::position::Position;
use super::repeatable::{is_flush, repeatable};
use super::step::{Step, Steps};
use super::{Import, OWN_NAME};
use crate::failure::{Failure, Result};
use crate::rdb::{Bytes, Input};
use crate::resp::take_request;
use crate::source::{Acks, SocketBytes};
use crate::tally::Phase;
use crate::target::{DATABASES, WORDS_MAX, request_bytes_max};
use crate::within::pause;

/// Most commands of one step, and their bytes; a transaction of the source may be longer, up to the next limits.
const STEP_COMMANDS: usize = 500;
const STEP_BYTES: usize = 1 << 20;
/// A transaction of the source that is longer than this is done in several.
const TRANSACTION_COMMANDS: usize = 20_000;
const TRANSACTION_BYTES: usize = 32 << 20;

/// Commands that do not change single keys, and cannot be part of a transaction with others.
const ALONE: [&str; 11] = [
    "FLUSHALL",
    "FLUSHDB",
    "SWAPDB",
    "EVAL",
    "EVALSHA",
    "EVAL_RO",
    "EVALSHA_RO",
    "FCALL",
    "FCALL_RO",
    "FUNCTION",
    "SCRIPT",
];
/// Commands that change nothing.
const NOTHING: [&str; 6] = ["PING", "REPLCONF", "PUBLISH", "SPUBLISH", "MULTI", "EXEC"];

/// Why a command is refused that is about all keys of a database.
const OWN_KEYS: &str = "with --replace the tenant may have keys that did not come from there";
/// Why a command is refused that is about all libraries of functions.
const OWN_LIBRARIES: &str = "with --replace the tenant may have libraries that did not come from there";

/// Takes commands from the stream of a source.
struct Taker<'i> {
    import: &'i Import,
    value_bytes_max: usize,
    is_in_transaction: bool,
    /// The part of a transaction that was taken, while its end has not come yet.
    begun: Option<Taken>,
}

/// Commands that were taken.
struct Taken {
    step: Step,
    /// The position behind them.
    end: Position,
    /// The source asks up to where we have everything.
    is_asked: bool,
    /// Bytes of the commands.
    bytes: usize,
}

impl Taker<'_> {
    /// Takes as many commands as make one step from the front of the input. `None` if more has to come: not even one
    /// command is whole, or a transaction is not. `from` is the position right behind what was taken before.
    fn take<B: Bytes>(&mut self, input: &mut Input<B>, from: &Position) -> Result<Option<Taken>> {
        // A step without commands only tells the position, in a database that is imported.
        let database = self.import.choice.first();
        let step = || Step { database, ..Step::default() };
        let begin = || Taken { step: step(), end: from.clone(), is_asked: false, bytes: 0 };
        let mut taken = self.begun.take().unwrap_or_else(begin);
        loop {
            let (commands_max, bytes_max) = match self.is_in_transaction {
                true => (TRANSACTION_COMMANDS, TRANSACTION_BYTES),
                false => (STEP_COMMANDS, STEP_BYTES),
            };
            let is_full = taken.step.commands.len() >= commands_max || taken.bytes >= bytes_max;
            if is_full || taken.is_asked || taken.step.is_alone {
                break;
            }
            let mut rest = input.held();
            let before = rest.len();
            let Some(words) = take_request(&mut rest)? else {
                if self.is_in_transaction {
                    self.begun = Some(taken);
                    return Ok(None);
                }
                break;
            };
            let len = before - rest.len();
            let name = words.first().map(|name| String::from_utf8_lossy(name).to_uppercase()).unwrap_or_default();
            let has_some = !taken.step.commands.is_empty();
            if has_some && (name == "SELECT" || ALONE.contains(&name.as_str())) {
                break;
            }
            input.consume(len);
            taken.bytes += len;
            taken.end.offset += len as u64;
            match name.as_str() {
                "" => {}
                // No command begins like this. A server that takes no replicas says so behind its snapshot.
                name if name.starts_with('-') => {
                    let said = String::from_utf8_lossy(&words.join(&b' ')).into_owned();
                    return Err(Failure::end(format!(
                        "all keys of the snapshot are in the tenant, and the source is not followed: it says {said}"
                    )));
                }
                "SELECT" => {
                    let chosen = words.get(1).and_then(|word| std::str::from_utf8(word).ok()?.parse().ok());
                    taken.end.database = chosen.unwrap_or(taken.end.database);
                }
                "MULTI" => self.is_in_transaction = true,
                "EXEC" => self.is_in_transaction = false,
                "REPLCONF" => taken.is_asked = words.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"getack")),
                name if NOTHING.contains(&name) => {}
                name => self.add(name.to_owned(), words, len, &mut taken),
            }
        }
        let is_nothing = taken.end == *from;
        Ok((!is_nothing).then_some(taken))
    }

    /// Adds a command of `len` bytes that changes something.
    fn add(&self, name: String, words: Words, len: usize, taken: &mut Taken) {
        let tally = &self.import.tally;
        tally.commands.fetch_add(1, Ordering::Relaxed);
        let choice = &self.import.choice;
        let database = match name.as_str() {
            // Libraries belong to no database.
            "FUNCTION" => u64::from(choice.first()),
            _ => taken.end.database,
        };
        let Some(words) = self.within_choice(&name, words, database) else { return };
        let shown = || words.iter().take(2).map(Vec::as_slice).collect::<Vec<_>>().join(&b' ');
        if name == "FLUSHALL" {
            if choice.replace {
                tally.refuse(database, &shown(), OWN_KEYS);
                return;
            }
            let chosen = choice.chosen();
            taken.step = Step { database: chosen[0], is_alone: true, ..Step::default() };
            if choice.databases.is_empty() {
                taken.step.commands.push((words, taken.end.offset));
            } else {
                for at in &chosen {
                    let commands = [vec![b"SELECT".to_vec(), at.to_string().into_bytes()], vec![b"FLUSHDB".to_vec()]];
                    taken.step.commands.extend(commands.map(|words| (words, taken.end.offset)));
                }
                let back = vec![b"SELECT".to_vec(), chosen[0].to_string().into_bytes()];
                taken.step.commands.push((back, taken.end.offset));
            }
            taken.step.empties = chosen;
            return;
        }
        if name == "SWAPDB" {
            self.add_exchange(words, taken);
            return;
        }
        if !choice.has(database) {
            return;
        }
        if name == "FLUSHDB" && choice.replace {
            tally.refuse(database, &shown(), OWN_KEYS);
            return;
        }
        if choice.replace && name == "FUNCTION" && is_flush(&words) {
            tally.refuse(database, &shown(), OWN_LIBRARIES);
            return;
        }
        if is_about_own(&words) {
            tally.refuse(database, &shown(), OWN_NAME);
            return;
        }
        let Some(at) = u8::try_from(database).ok().filter(|&at| at < DATABASES) else {
            tally.refuse(database, &shown(), "a tenant has 16 databases, 0 to 15");
            return;
        };
        if let Some(word) = words.iter().find(|word| word.len() > self.value_bytes_max) {
            let reason = format!("one of its values has {} bytes, more than the target takes", word.len());
            tally.refuse(database, &shown(), &reason);
            return;
        }
        if len > request_bytes_max(self.value_bytes_max) || words.len() > WORDS_MAX {
            if let Some(parts) = apart(&words) {
                taken.step.database = at;
                taken.step.commands.extend(parts.into_iter().map(|part| (part, taken.end.offset)));
                return;
            }
            let reason = format!("it has {len} bytes in {} words, more than the target takes at once", words.len());
            tally.refuse(database, &shown(), &reason);
            return;
        }
        taken.step.database = at;
        taken.step.is_alone = ALONE.contains(&name.as_str());
        if name == "FLUSHDB" {
            taken.step.empties = vec![at];
        }
        taken.step.commands.push((repeatable(words), taken.end.offset));
    }
}

impl Taker<'_> {
    /// A command of `database`, in a form that changes no database that is not imported. `None` if nothing is left of
    /// it: it changes only such databases, or brings a key from one, and is refused.
    fn within_choice(&self, name: &str, words: Words, database: u64) -> Option<Words> {
        let has = |database| self.import.choice.has(database);
        let other = other_database(name, &words).filter(|&other| has(other) != has(database));
        let Some(other) = other else { return Some(words) };
        if has(other) {
            let what = words.iter().take(2).map(Vec::as_slice).collect::<Vec<_>>().join(&b' ');
            let reason = format!("the key comes from database {database}, which is not imported");
            self.import.tally.refuse(other, &what, &reason);
            return None;
        }
        // A source sends a `MOVE` only if it has moved the key.
        (name == "MOVE").then(|| [b"DEL".to_vec(), words[1].clone()].to_vec())
    }

    /// Adds a `SWAPDB`.
    fn add_exchange(&self, words: Words, taken: &mut Taken) {
        let (choice, tally) = (&self.import.choice, &self.import.tally);
        let refuse = |reason: &str| tally.refuse(taken.end.database, &words.join(&b' '), reason);
        let name = |word: usize| std::str::from_utf8(words.get(word)?).ok()?.parse::<u64>().ok();
        let Some((one, other)) = name(1).zip(name(2)) else {
            refuse("it names no databases");
            return;
        };
        if one == other || !(choice.has(one) || choice.has(other)) {
            return;
        }
        if choice.replace {
            refuse(OWN_KEYS);
            return;
        }
        let known = |name: u64| u8::try_from(name).ok().filter(|&at| at < DATABASES && choice.has(name));
        let Some((one, other)) = known(one).zip(known(other)) else {
            refuse("one of the two is not imported: what the other has become is not here");
            return;
        };
        let exchanges = Some((one, other));
        taken.step = Step { database: one, is_alone: true, exchanges, ..Step::default() };
        taken.step.commands.push((words, taken.end.offset));
    }
}

/// The database to which a command brings a key, if it names one.
fn other_database(name: &str, words: &Words) -> Option<u64> {
    let word = match name {
        "MOVE" => words.get(2)?,
        // The options come behind both keys, and the last one of a name counts.
        "COPY" => {
            let mut options = words.get(3..)?.windows(2).rev();
            &options.find(|option| option[0].eq_ignore_ascii_case(b"DB"))?[1]
        }
        _ => return None,
    };
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Follows the stream from `input`, until `stop` says so, or until the tenant has everything, if that is wanted.
pub(super) async fn follow(
    import: &Import,
    mut input: Input<SocketBytes>,
    acks: &Acks,
    steps: &mut Steps,
    position: &mut Position,
    value_bytes_max: usize,
    stop: &mut watch::Receiver<bool>,
) -> Result {
    let mut taker = Taker { import, value_bytes_max, is_in_transaction: false, begun: None };
    acks.stream(position.offset);
    // Forget the source's position until it is asked again: it may be another server now.
    import.tally.tell_source(None);
    import.tally.apply(position.offset);
    import.tally.set_phase(Phase::Following);
    loop {
        while let Some(mut taken) = taker.take(&mut input, position)? {
            taken.end.in_step_ms = import.tally.in_step_ms.load(Ordering::Relaxed);
            steps.apply(&taken.step, &taken.end).await?;
            *position = taken.end;
            acks.applied(position.offset);
            import.tally.apply(position.offset);
            if taken.is_asked {
                acks.answer();
            }
        }
        import.tally.apply(position.offset);
        if *stop.borrow() || (import.choice.until_in_step && import.tally.is_in_step()) {
            return Ok(());
        }
        let second = pause(&import.clock, 200);
        let told = async {
            let stopped = pin!(stop.changed());
            let _ = select(pin!(second), stopped).await;
        };
        // Dropping the future that waits for more loses nothing.
        if let Either::Left((filled, _)) = select(pin!(input.fill()), pin!(told)).await {
            filled?;
        }
    }
}

#[cfg(test)]
mod fenced;
#[cfg(test)]
mod kills;
#[cfg(test)]
mod taken;
#[cfg(test)]
mod unclear;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_io::real::{RealClock, block_on};

    use super::*;
    use crate::address::Address;
    use crate::import::Choice;
    use crate::rdb::FileBytes;
    use crate::resp::Requests;
    use crate::target::Target;

    pub(super) fn import() -> Import {
        let address = Address::plain("127.0.0.1").expect("an address");
        let clock: Arc<dyn weir_io::Clock> = RealClock::new();
        let target = Target::new(address, Arc::clone(&clock));
        Import { target, choice: Choice::default(), tally: Arc::default(), whole_bytes_max: 1 << 20, clock }
    }

    pub(super) fn names(taken: &Taken) -> Vec<String> {
        let name = |words: &Words| String::from_utf8_lossy(&words.join(&b' ')).into_owned();
        taken.step.commands.iter().map(|(words, _)| name(words)).collect()
    }

    #[test]
    fn a_transaction_is_one_step_however_it_arrives() {
        let import = import();
        let from = Position { history: "h".repeat(40), offset: 10, database: 0, in_step_ms: 0 };
        let mut requests = Requests::default();
        for line in ["SET before 1", "MULTI", "INCR a", "INCR b", "EXEC", "SET behind 1"] {
            requests.push(&line.split(' ').collect::<Vec<_>>());
        }
        let (bytes, end_of_exec) =
            (requests.bytes_from(0), requests.bytes_from(0).len() - requests.bytes_from(5).len());
        for first in 0..end_of_exec {
            let mut taker = Taker { import: &import, value_bytes_max: 1000, is_in_transaction: false, begun: None };
            let mut input = Input::new(FileBytes(&bytes[first..end_of_exec]), bytes[..first].to_vec());
            let (mut all, mut position) = (Vec::new(), from.clone());
            loop {
                match taker.take(&mut input, &position).expect("requests") {
                    Some(taken) => {
                        all.push(names(&taken));
                        position = taken.end;
                    }
                    None if position.offset == 10 + end_of_exec as u64 => break,
                    None => block_on(input.fill()).expect("more"),
                }
            }
            let steps = all.concat();
            assert_eq!(steps, ["SET before 1", "INCR a", "INCR b"], "{first}");
            let is_whole = |step: &Vec<String>| step.iter().filter(|name| name.starts_with("INCR")).count() != 1;
            assert!(all.iter().all(is_whole), "{first}: {all:?}");
        }
    }

    #[test]
    fn with_replace_nothing_empties_a_database() {
        let mut import = import();
        import.choice.replace = true;
        let from = Position { history: "h".repeat(40), offset: 0, database: 0, in_step_ms: 0 };
        let mut requests = Requests::default();
        for line in ["FLUSHDB", "flushall", "SWAPDB 0 1", "FLUSHDB ASYNC", "SET a 1"] {
            requests.push(&line.split(' ').collect::<Vec<_>>());
        }
        let mut taker = Taker { import: &import, value_bytes_max: 1000, is_in_transaction: false, begun: None };
        let mut input = Input::new(FileBytes(&b""[..]), requests.bytes_from(0).to_vec());
        let taken = taker.take(&mut input, &from).expect("requests").expect("a step");
        assert_eq!((names(&taken), taken.step.is_alone), (vec!["SET a 1".to_owned()], false));
        assert_eq!(import.tally.refusals(), 4);
    }

    #[test]
    fn a_source_that_is_not_to_be_followed_says_so() {
        let import = import();
        let from = Position { history: "h".repeat(40), offset: 0, database: 0, in_step_ms: 0 };
        let mut taker = Taker { import: &import, value_bytes_max: 1000, is_in_transaction: false, begun: None };
        let mut input = Input::new(FileBytes(&b""[..]), b"-ERR no replicas here\r\n".to_vec());
        let failure = taker.take(&mut input, &from).err().expect("a refusal");
        assert!(failure.message.ends_with("-ERR no replicas here"), "{failure}");
        assert_eq!(failure.remedy, crate::failure::Remedy::End);
    }
}
