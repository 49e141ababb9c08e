//! A host without a client: for commands that come from another process, from a script, or from a seed.

use std::collections::VecDeque;
use std::future::ready;

use weir_io::{Rng, Yield};

use crate::bill::Bill;
use crate::error::{OLD_CURSOR, Outcome};
use crate::host::Host;
use crate::reply::{Mark, Protocol, Replies};
use crate::rows::Waiting;

/// Keeps the whole answer; the caller of the command has to bound what the command may ask for.
pub struct Headless {
    replies: Replies,
    from: Mark,
    yields: Yield,
    rng: Rng,
    /// The cursors of the last scans, the oldest first: number, database, and the place to go on.
    cursors: VecDeque<(u64, u8, Vec<u8>)>,
    /// The number of the newest cursor.
    last_cursor: u64,
}

/// How many scans are remembered. A client that goes on with an older one has to start again.
const CURSORS_MAX: usize = 1024;

impl Headless {
    /// A host that answers in `protocol`. Long commands let others run by `yields`; random numbers come from `rng`.
    pub fn new(protocol: Protocol, yields: Yield, rng: Rng) -> Self {
        let mut replies = Replies::default();
        replies.protocol = protocol;
        let from = replies.begin();
        Self { replies, from, yields, rng, cursors: VecDeque::new(), last_cursor: 0 }
    }

    /// The answer to a command that ended with `outcome`, as bytes of the protocol. The next command's answer begins
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

    fn pay_page<'a>(&'a mut self, _: &'a mut Bill) -> Waiting<'a, Outcome> {
        Box::pin(async move {
            self.yields.now().await;
            Ok(())
        })
    }

    fn cursor(&self, database: u8, cursor: u64) -> Outcome<Vec<u8>> {
        let mut cursors = self.cursors.iter();
        let found = cursors.find(|(number, of, _)| (*number, *of) == (cursor, database));
        found.map(|(.., place)| place.clone()).ok_or(OLD_CURSOR)
    }

    fn new_cursor(&mut self, database: u8, place: Vec<u8>) -> Outcome<u64> {
        if self.cursors.len() == CURSORS_MAX {
            self.cursors.pop_front();
        }
        self.last_cursor += 1;
        self.cursors.push_back((self.last_cursor, database, place));
        Ok(self.last_cursor)
    }

    fn random(&mut self) -> u64 {
        self.rng.next_u64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_scans_are_remembered() {
        let mut host = Headless::new(Protocol::Resp2, Yield::PLAIN, Rng::new(1));
        let first = host.new_cursor(3, b"a".to_vec()).expect("room");
        assert_eq!(host.cursor(3, first).as_deref(), Ok(&b"a"[..]));
        assert!(host.cursor(2, first).is_err(), "another database's");
        for _ in 0..CURSORS_MAX {
            host.new_cursor(3, b"b".to_vec()).expect("room");
        }
        assert!(host.cursor(3, first).is_err() && host.cursors.len() == CURSORS_MAX);
    }
}
