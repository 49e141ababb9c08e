//! Runs a command of many keys as several commands of the same name, each with some of the keys. This is the host of
//! one of them.

use std::sync::Arc;

use weir_command::bill::Bill;
use weir_command::error::{Error, KEY_TOO_LONG, Outcome};
use weir_command::reply::{Protocol, Replies};
use weir_command::{Args, Command, Host, ResultLimit, Span, TURN_KEYS, Waiting};
use weir_io::Yield;
use weir_model::KEY_BYTES_MAX;

/// Whether every part of `command` has complete groups of words, and keys of a valid length.
///
/// # Errors
/// What the first part that is not valid would be answered.
pub(super) fn check_parts(command: &Command, args: Args<'_>) -> Outcome {
    if !(args.len() - 1).is_multiple_of(command.keys.2 as usize) {
        return Err(Error::arity(command.name));
    }
    if command.keys_in(args).any(|key| key.len() > KEY_BYTES_MAX) { Err(KEY_TOO_LONG) } else { Ok(()) }
}

/// The words of each part of `command`, all of whose arguments belong to keys.
pub(super) fn parts<'a>(command: &Command, args: Args<'a>) -> impl Iterator<Item = Vec<Span>> + use<'a> {
    let (name, rest) = args.spans().split_at(1);
    rest.chunks(TURN_KEYS * command.keys.2 as usize).map(move |keys| [name, keys].concat())
}

/// Collects the answer of one part. Everything else is passed on to `whole`.
pub(super) struct Part<'h> {
    whole: &'h mut dyn Host,
    answer: Replies,
}

impl<'h> Part<'h> {
    /// A part of what `whole` has asked for. Its answer is in `protocol`.
    pub(super) fn new(whole: &'h mut dyn Host, protocol: Protocol) -> Self {
        let mut answer = Replies::default();
        answer.protocol = protocol;
        answer.begin();
        Self { whole, answer }
    }

    /// The answer of the part.
    pub(super) fn into_answer(self) -> Replies {
        self.answer
    }
}

impl Host for Part<'_> {
    fn replies(&mut self) -> &mut Replies {
        &mut self.answer
    }

    fn yields(&self) -> Yield {
        self.whole.yields()
    }

    fn drain(&mut self) -> Waiting<'_, Outcome> {
        // The answer of a part is short, so nothing is drained.
        Box::pin(std::future::ready(Ok(())))
    }

    fn try_hold(&mut self, bytes: usize) -> bool {
        self.whole.try_hold(bytes)
    }

    fn hold(&mut self, bytes: usize) -> Waiting<'_, Outcome> {
        self.whole.hold(bytes)
    }

    fn results(&self) -> Option<Arc<dyn ResultLimit>> {
        self.whole.results()
    }

    fn let_go(&mut self) {
        self.whole.let_go();
    }

    fn pay_page<'a>(&'a mut self, bill: &'a mut Bill) -> Waiting<'a, Outcome> {
        self.whole.pay_page(bill)
    }

    fn cursor(&self, database: u8, cursor: u64) -> Outcome<Vec<u8>> {
        self.whole.cursor(database, cursor)
    }

    fn new_cursor(&mut self, database: u8, place: Vec<u8>) -> Outcome<u64> {
        self.whole.new_cursor(database, place)
    }

    fn random(&mut self) -> u64 {
        self.whole.random()
    }
}
