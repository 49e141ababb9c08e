//! Who runs a command: takes the answer, lends memory, waits, and lets others run.

use weir_io::Yield;

use crate::bill::Bill;
use crate::error::Outcome;
use crate::reply::Replies;
use crate::rows::Waiting;

/// See the module.
pub trait Host: Send {
    /// Where the answer goes.
    fn replies(&mut self) -> &mut Replies;

    /// How a long command lets others run.
    fn yields(&self) -> Yield;

    /// What is answered so far may leave, if it is long: the answer goes on afterwards.
    ///
    /// # Errors
    /// Whoever asked is gone.
    fn drain(&mut self) -> Waiting<'_, Outcome>;

    /// Books `bytes` of a long value that is about to be in hand; `false` where its tenant has too many in hand (S11).
    fn try_hold(&mut self, bytes: usize) -> bool;

    /// Books `bytes` of a long value, when there is room for it.
    ///
    /// # Errors
    /// The command has others in hand: waiting with those could be for ever.
    fn hold(&mut self, bytes: usize) -> Waiting<'_, Outcome>;

    /// No value is in hand any more but those in the answer.
    fn let_go(&mut self);

    /// Between two pages of keys: others run, what was gone through is paid from `bill`, and the next page has its
    /// unit.
    ///
    /// # Errors
    /// The server is ending.
    fn pay_page<'a>(&'a mut self, bill: &'a mut Bill) -> Waiting<'a, Outcome>;

    /// Whether so much is owed for the command that it should wait before it reads more (U-16). What it has cost so far
    /// is paid from `bill`.
    fn must_pay(&mut self, _bill: &mut Bill) -> bool {
        false
    }

    /// Where the `SCAN` with the number `cursor` goes on.
    ///
    /// # Errors
    /// The number is unknown, or too old.
    fn cursor(&self, database: u8, cursor: u64) -> Outcome<Vec<u8>>;

    /// A number for a `SCAN` that goes on at `place`.
    ///
    /// # Errors
    /// Nobody remembers it.
    fn new_cursor(&mut self, database: u8, place: Vec<u8>) -> Outcome<u64>;

    /// Chance.
    fn random(&mut self) -> u64;
}
