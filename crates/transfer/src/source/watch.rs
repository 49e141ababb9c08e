//! Asks the source how far it is: as soon as it is followed, and then once a second.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_io::Clock;

use crate::address::Address;
use crate::failure::Result;
use crate::resp::{Connection, Reply};
use crate::tally::{Phase, Tally};
use crate::within::{pause, within};

/// How often the source is asked, in milliseconds.
const AGAIN_MS: u64 = 1_000;
/// How soon it is noticed that the source is followed, in milliseconds.
const NOTICED_MS: u64 = 100;
/// A source that does not answer within this many seconds may be far ahead of what it said last.
const ANSWER_SECONDS: u64 = 2;

/// Tells `tally` where the source is, until it is dropped.
pub async fn watch(address: Address, tally: Arc<Tally>, clock: Arc<dyn Clock>) {
    let mut connection: Option<Connection> = None;
    // When the question was asked that was answered last.
    let mut asked_ms = 0;
    loop {
        let is_followed = tally.phase() == Phase::Following;
        pause(&clock, if is_followed { AGAIN_MS } else { NOTICED_MS }).await;
        if tally.phase() != Phase::Following {
            continue;
        }
        if tally.is_in_step() {
            // Not the maximum: if this machine's clock was ahead for a while, the moment goes back with it.
            tally.in_step_ms.store(asked_ms, Ordering::Relaxed);
        }
        let now_ms = clock.unix_ms();
        let Ok(reply) = ask(&mut connection, &address, &clock).await else {
            // The task that follows the source reports what is wrong with it.
            tally.tell_source(None);
            continue;
        };
        asked_ms = now_ms;
        let source = position(&reply);
        tally.tell_source(source);
        if source.is_none() {
            tally.note("the source does not tell its position (INFO replication): the lag is not known");
        }
    }
}

/// Asks over `connection`, which is opened if there is none, and given up if no answer comes.
async fn ask(connection: &mut Option<Connection>, address: &Address, clock: &Arc<dyn Clock>) -> Result<Reply> {
    let mut open = match connection.take() {
        Some(open) => open,
        None => Connection::open(address, clock).await?,
    };
    let reply = within(clock, ANSWER_SECONDS, "INFO", open.call(&["INFO", "replication"])).await?;
    *connection = Some(open);
    Ok(reply)
}

fn position(info: &Reply) -> Option<u64> {
    let text = std::str::from_utf8(info.text()?).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("master_repl_offset:"))?;
    line.trim().parse().ok()
}
