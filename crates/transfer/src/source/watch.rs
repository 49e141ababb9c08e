//! Asks the source once a second how far it is.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_io::Clock;

use crate::address::Address;
use crate::resp::{Connection, Reply};
use crate::tally::{Phase, Tally};
use crate::within::pause;

/// Tells `tally` where the source is, until it is dropped.
pub async fn watch(address: Address, tally: Arc<Tally>, clock: Arc<dyn Clock>) {
    let mut connection: Option<Connection> = None;
    loop {
        pause(&clock, 1_000).await;
        if tally.phase() != Phase::Following {
            continue;
        }
        let mut open = match connection.take() {
            Some(open) => open,
            None => match Connection::open(&address, &clock).await {
                Ok(open) => open,
                // The task that follows the source reports that.
                Err(_) => continue,
            },
        };
        let Ok(reply) = open.call(&["INFO", "replication"]).await else { continue };
        connection = Some(open);
        match position(&reply) {
            Some(source) => tally.source.store(source, Ordering::Relaxed),
            None => tally.note("the source does not tell its position (INFO replication): the lag is not known"),
        }
    }
}

fn position(info: &Reply) -> Option<u64> {
    let text = std::str::from_utf8(info.text()?).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("master_repl_offset:"))?;
    line.trim().parse().ok()
}
