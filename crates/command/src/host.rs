//! The host of a command: takes its answer, lends it memory, makes it wait, and lets others run.

use std::sync::Arc;

use weir_io::Yield;

use crate::bill::Bill;
use crate::error::Outcome;
use crate::reply::Replies;
use crate::room::ResultLimit;
use crate::rows::Waiting;

/// What a command needs of its surroundings besides its rows. A connection is one, and so is
/// [`Headless`](crate::Headless).
pub trait Host: Send {
    /// Where the answer goes.
    fn replies(&mut self) -> &mut Replies;

    /// How a long command lets others run.
    fn yields(&self) -> Yield;

    /// Lets the answer so far leave, if it is long. The command adds to the answer afterwards.
    ///
    /// # Errors
    /// The client is gone.
    fn drain(&mut self) -> Waiting<'_, Outcome>;

    /// Books `bytes` for a long value that the command is about to hold; `false` if its tenant holds too many (S11).
    fn try_hold(&mut self, bytes: usize) -> bool;

    /// Books `bytes` for a long value, as soon as there is room for it.
    ///
    /// # Errors
    /// The command holds other long values: waiting while it holds them could last for ever.
    fn hold(&mut self, bytes: usize) -> Waiting<'_, Outcome>;

    /// The limit on results that the command's tenant has; `None` if the caller of the command bounds them.
    fn results(&self) -> Option<Arc<dyn ResultLimit>> {
        None
    }

    /// The command holds no values any more, except those in its answer.
    fn let_go(&mut self);

    /// Between two pages of keys: lets others run, pays from `bill` for what was gone through, and acquires the unit
    /// for the next page.
    ///
    /// # Errors
    /// The server is shutting down.
    fn pay_page<'a>(&'a mut self, bill: &'a mut Bill) -> Waiting<'a, Outcome>;

    /// Whether so much is owed for the command that it should wait before it reads more (U-16). Also pays what the
    /// command has cost so far, as `bill` has it.
    fn must_pay(&mut self, _bill: &mut Bill) -> bool {
        false
    }

    /// Notes what the command has cost so far, as `bill` has it. If the command is cut before its end, that is what it
    /// has cost. [`Host::pay_page`] does this, too.
    fn note_cost(&mut self, _bill: &Bill) {}

    /// Where the `SCAN` with the number `cursor` goes on.
    ///
    /// # Errors
    /// The number is unknown, or too old.
    fn cursor(&self, database: u8, cursor: u64) -> Outcome<Vec<u8>>;

    /// A number for a `SCAN` that goes on at `place`.
    ///
    /// # Errors
    /// The host remembers no cursors.
    fn new_cursor(&mut self, database: u8, place: Vec<u8>) -> Outcome<u64>;

    /// A random number.
    fn random(&mut self) -> u64;
}
