//! Clients of a real server that take steps. Each step changes rows of every type by a transaction, a script or a
//! function, and happens as a whole or not at all.
//!
//! Step `n` writes to some fifteen rows of its client ([`step`]), in one of six [ways](way). Before every tenth step
//! the client's library of functions is loaded anew, and says which step it came with. A companion waits for the
//! numbers that steps push (`BLMOVE`), and takes them over.
//!
//! After an end of any kind the rows of a client must be those of some last step `c`, with acknowledged <= c <= sent:
//! the rule of the prefix, for rows of many kinds at a time. Rows that plain commands make anew from the last steps
//! must answer every question alike; each step counts once; numbers are taken over once and in order; and the library
//! is the one that was loaded before step `c`, or before the next.
#![allow(clippy::disallowed_methods, reason = "these clients speak to servers over real sockets")]

pub mod patient;
pub mod step;
pub mod way;

use std::io::{BufReader, Error, ErrorKind, Result, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use self::step::Words;
use crate::kill9::Load;
use crate::process::Door;
use crate::reply::Reply;

/// A library is loaded before each of this many steps.
const LIBRARY_EVERY: u64 = 10;
/// A server that does not answer for this long hangs.
const PATIENCE: Duration = Duration::from_secs(120);
/// Steps that may be sent before the first of them is answered.
const AHEAD_MAX: u64 = 3;

/// What a server may answer once it was asked to end.
const ENDING: &str = "ending";

/// What is known of the steps of one client.
#[derive(Debug, Default)]
pub struct Steps {
    /// The last step that was sent.
    sent: AtomicU64,
    /// The last step that was acknowledged.
    acknowledged: AtomicU64,
    /// How many numbers the companion was told that it has taken over.
    taken: AtomicU64,
    /// What was there at the last look: steps, and numbers taken over.
    found: (u64, u64),
    /// An answer that the server should not have given, from a server that went on.
    refused: Option<String>,
}

/// A connection that sends commands and reads their replies.
struct Line(BufReader<TcpStream>);

impl Line {
    fn enter(door: &Door) -> Result<Self> {
        let reader = door.enter()?;
        reader.get_ref().set_read_timeout(Some(PATIENCE))?;
        Ok(Self(reader))
    }

    /// The replies to `commands`, which are sent all at once.
    fn ask(&mut self, commands: &[Words]) -> Result<Vec<Reply>> {
        let bytes: Vec<u8> = commands.iter().flat_map(encode).collect();
        self.0.get_mut().write_all(&bytes)?;
        commands.iter().map(|_| Reply::read(&mut self.0)).collect()
    }
}

fn encode(command: &Words) -> Vec<u8> {
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    crate::process::command(&words).into_bytes()
}

/// The name of the rows and functions of a client.
fn name(client: usize) -> String {
    format!("c{client}")
}

impl Steps {
    /// From now on what was acknowledged since the last look may be lost.
    pub fn promise_nothing(&mut self) {
        (*self.acknowledged.get_mut(), *self.taken.get_mut()) = self.found;
    }

    /// As [`Load::verify`] of a server that goes on. What was found at the last look before stays what is sure to be
    /// there when [nothing else is promised](Self::promise_nothing).
    ///
    /// # Errors
    /// As [`Load::verify`].
    pub fn look(&mut self, door: &Door, client: usize) -> std::result::Result<(), String> {
        let found = self.found;
        self.verify(door, client)?;
        self.found = found;
        Ok(())
    }

    /// How many steps were sent.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::SeqCst)
    }

    /// Takes steps as `client` until the server is gone or refuses one, until `stop`, or until `steps` were taken. An
    /// answer that should not have been given is the error.
    ///
    /// # Errors
    /// Why it has ended, except for the last two reasons.
    pub fn take(&self, door: &Door, client: usize, stop: &AtomicBool, steps: u64) -> Result<()> {
        let name = name(client);
        let mut line = Line::enter(door)?;
        let until = self.acknowledged().saturating_add(steps);
        while !stop.load(Ordering::Relaxed) && self.acknowledged() < until {
            let from = self.acknowledged() + 1;
            if from.is_multiple_of(LIBRARY_EVERY) || from == 1 {
                let told = line.ask(&[way::library(&name, from)])?;
                if let Some(why) = told[0].error() {
                    return Err(refused(format!("FUNCTION LOAD: {why}")));
                }
            }
            let to = (from + from % AHEAD_MAX).min(from - from % LIBRARY_EVERY + LIBRARY_EVERY - 1);
            // Counted as sent before it is sent: the server may be gone in the middle of reading it.
            self.sent.store(to, Ordering::SeqCst);
            let commands: Vec<Vec<Words>> = (from..=to).map(|n| way::sent(&name, n)).collect();
            let bytes: Vec<u8> = commands.iter().flatten().flat_map(encode).collect();
            line.0.get_mut().write_all(&bytes)?;
            for (n, commands) in (from..=to).zip(&commands) {
                let replies: Vec<Reply> = commands.iter().map(|_| Reply::read(&mut line.0)).collect::<Result<_>>()?;
                way::judge(n, &replies).map_err(refused)?;
                self.acknowledged.store(n, Ordering::SeqCst);
            }
        }
        Ok(())
    }

    /// Takes over the numbers of steps as the companion of `client`, until the server is gone or until `stop`.
    ///
    /// # Errors
    /// Why it has ended, except for `stop`.
    pub fn take_over(&self, door: &Door, client: usize, stop: &AtomicBool) -> Result<()> {
        let (mut line, command) = (Line::enter(door)?, step::take(&name(client)));
        while !stop.load(Ordering::Relaxed) {
            let told = line.ask(std::slice::from_ref(&command))?;
            match &told[0] {
                Reply::Bulk(Some(_)) => drop(self.taken.fetch_add(1, Ordering::SeqCst)),
                Reply::Bulk(None) | Reply::Array(None) => {}
                other => return Err(refused(format!("BLMOVE: {other:?}"))),
            }
        }
        Ok(())
    }
}

impl Load for Steps {
    fn write(&mut self, door: &Door, connection: usize, stop: &AtomicBool) {
        // Whatever ends the clients, what was acknowledged has to be there, and what was not may be.
        let ends = std::thread::scope(|scope| {
            let companion = scope.spawn(|| self.take_over(door, connection, stop));
            let end = self.take(door, connection, stop, u64::MAX);
            [end, companion.join().unwrap_or_else(|_| Err(refused("the companion panicked".to_owned())))]
        });
        let errors = ends.into_iter().filter_map(Result::err);
        let answers = errors.filter(|error| error.kind() == ErrorKind::InvalidData).map(|error| error.to_string());
        self.refused = answers.into_iter().find(|answer| !answer.contains(ENDING));
    }

    fn verify(&mut self, door: &Door, client: usize) -> std::result::Result<(), String> {
        if let Some(refused) = self.refused.take() {
            return Err(refused);
        }
        let broken = |error: Error| format!("cannot read back: {error}");
        let (name, copy) = (name(client), format!("copy-of-{}", name(client)));
        let mut line = Line::enter(door).map_err(broken)?;
        let (sent, acknowledged) = (self.sent(), self.acknowledged());
        let questions = step::questions(&name);
        let found = line.ask(&questions).map_err(broken)?;
        let last = found[0].text().parse().unwrap_or(0);
        if last < acknowledged || last > sent {
            return Err(format!("the last step is {last}: {acknowledged} were acknowledged, {sent} sent"));
        }
        let commands = step::replay(&copy, last);
        let replies = line.ask(&commands).map_err(broken)?;
        if let Some(why) = replies.iter().find_map(Reply::error) {
            return Err(format!("the last steps are refused where they are taken once more: {why}"));
        }
        let expected = line.ask(&step::questions(&copy)).map_err(broken)?;
        for (question, (found, expected)) in questions.iter().zip(found.iter().zip(&expected)) {
            // An error names its rows, so errors of different rows differ.
            if found != expected && (found.error().is_none() || expected.error().is_none()) {
                return Err(format!("after step {last}: {question:?} is answered {found:?}, and not {expected:?}"));
            }
        }
        let [taken, left] = step::taken_and_left(&name);
        let told = line.ask(&[step::count(&name), taken, left, way::version(&name)]).map_err(broken)?;
        let count: u64 = told[0].text().parse().unwrap_or(0);
        if count != last {
            return Err(format!("step {last} is the last, and {count} were counted"));
        }
        let numbers = told[1].elements().iter().chain(told[2].elements()).map(|number| number.text().parse().ok());
        if !numbers.eq((1..=last).map(Some)) {
            return Err(format!("after step {last}: taken over {:?}, left {:?}", told[1], told[2]));
        }
        let taken = told[1].elements().len() as u64;
        if taken < self.taken.load(Ordering::SeqCst) {
            return Err(format!("{taken} numbers were taken over, and {:?} acknowledged", self.taken));
        }
        judge_library(last, &told[3])?;
        *self = Self {
            sent: last.into(),
            acknowledged: last.into(),
            taken: taken.into(),
            found: (last, taken),
            refused: None,
        };
        Ok(())
    }

    fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }
}

/// A server has given an answer that it should not have given.
fn refused(what: String) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}

/// Checks that the library is one that may be there after the step `last`.
fn judge_library(last: u64, told: &Reply) -> std::result::Result<(), String> {
    let before = |n: u64| (n - n % LIBRARY_EVERY).max(u64::from(n > 0));
    let found = match told.error() {
        Some(why) if why.contains("Function not found") => 0,
        Some(why) => return Err(format!("after step {last}: the library is refused: {why}")),
        None => told.text().parse().unwrap_or(u64::MAX),
    };
    match [before(last), before(last + 1)].contains(&found) {
        true => Ok(()),
        false => Err(format!("after step {last}: the library is the one of step {found}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_come_with_the_steps_behind_them() {
        let told = |text: &str| Reply::Bulk(Some(text.as_bytes().to_vec()));
        let none = Reply::Line(b"-ERR Function not found".to_vec());
        assert!(judge_library(0, &none).is_ok() && judge_library(0, &told("1")).is_ok());
        assert!(judge_library(1, &none).is_err() && judge_library(9, &told("1")).is_ok());
        assert!(judge_library(9, &told("10")).is_ok() && judge_library(10, &told("1")).is_err());
        assert!(judge_library(25, &told("20")).is_ok() && judge_library(25, &told("30")).is_err());
    }
}
