//! A host without a client: for commands that came from another process, from a script, or from a seed.

use std::future::ready;

use weir_io::{Rng, Yield};

use crate::bill::Bill;
use crate::error::{OLD_CURSOR, Outcome};
use crate::host::Host;
use crate::reply::{Mark, Protocol, Replies};
use crate::rows::Waiting;

/// Keeps the whole answer; whoever runs the command bounds what it may ask for.
pub struct Headless {
    replies: Replies,
    from: Mark,
    yields: Yield,
    rng: Rng,
    /// Where scans go on: the cursor n is at n - 1.
    cursors: Vec<(u8, Vec<u8>)>,
}

impl Headless {
    /// Answers in `protocol`. Long commands let others run by `yields`; chance comes from `rng`.
    pub fn new(protocol: Protocol, yields: Yield, rng: Rng) -> Self {
        let mut replies = Replies::default();
        replies.protocol = protocol;
        let from = replies.begin();
        Self { replies, from, yields, rng, cursors: Vec::new() }
    }

    /// The answer to a command that has come to `outcome`, as bytes of the protocol. The next command's answer begins
    /// anew.
    pub fn take_answer(&mut self, outcome: &Outcome) -> Vec<u8> {
        if let Err(error) = outcome {
            self.replies.restart(self.from);
            self.replies.error(error.text());
        }
        let answer = self.replies.to_vec();
        self.replies.clear();
        self.from = self.replies.begin();
        answer
    }
}

impl Host for Headless {
    fn replies(&mut self) -> &mut Replies {
        &mut self.replies
    }

    fn yields(&self) -> Yield {
        self.yields
    }

    fn drain(&mut self) -> Waiting<'_, Outcome> {
        Box::pin(ready(Ok(())))
    }

    fn try_hold(&mut self, _: usize) -> bool {
        true
    }

    fn hold(&mut self, _: usize) -> Waiting<'_, Outcome> {
        Box::pin(ready(Ok(())))
    }

    fn let_go(&mut self) {}

    fn pay_page<'a>(&'a mut self, _: &'a mut Option<Bill>) -> Waiting<'a, Outcome> {
        Box::pin(async move {
            self.yields.now().await;
            Ok(())
        })
    }

    fn cursor(&self, database: u8, cursor: u64) -> Outcome<Vec<u8>> {
        let cursor = usize::try_from(cursor).ok().and_then(|cursor| self.cursors.get(cursor.checked_sub(1)?));
        cursor.filter(|(of, _)| *of == database).map(|(_, place)| place.clone()).ok_or(OLD_CURSOR)
    }

    /// Each is remembered as long as the host lives.
    fn new_cursor(&mut self, database: u8, place: Vec<u8>) -> Outcome<u64> {
        self.cursors.push((database, place));
        Ok(self.cursors.len() as u64)
    }

    fn random(&mut self) -> u64 {
        self.rng.next_u64()
    }
}
