//! Does a `SWAPDB` of a source once, although it cannot be one transaction with the position behind it.
//!
//! Before the exchange, a key that names the exchange by its position is written into the first database. The exchange
//! moves it with the data of the database: so after any break its place says whether the exchange has been done. The
//! key is watched in both databases, as requests of a connection that broke may still be done.

use super::position::{EXCHANGED, Position};
use super::step::{Step, Steps, Tried};
use crate::failure::{Failure, Result};
use crate::resp::{Connection, Reply, Requests, Verdict, judge};
use crate::target::select;

impl Steps {
    /// Does a step that exchanges two databases and ends at `end`.
    pub(super) async fn try_exchange(&mut self, step: &Step, end: &Position) -> Result<Tried> {
        let Some((one, other)) = step.exchanges else { return Ok(Tried::Done) };
        let (mut connection, is_done) = self.ready(one, self.partitions.home(), end, false).await?;
        if !is_done {
            let tried = exchange(&mut connection, (one, other), end).await?;
            if !matches!(tried, Tried::Done) {
                select(&mut connection, one).await?;
                self.connection = Some((connection, one));
                return Ok(tried);
            }
        }
        connection.ask(&["UNWATCH"]).await?;
        select(&mut connection, one).await?;
        let mark = self.partitions.mark(self.partitions.home());
        connection.ask(&[b"SET".as_slice(), mark, end.mark().as_bytes()]).await?;
        for database in [one, other] {
            select(&mut connection, database).await?;
            connection.ask(&[b"DEL".as_slice(), EXCHANGED]).await?;
        }
        // The marks of both databases have moved with them.
        self.marks = self.read_marks(&mut connection).await?;
        select(&mut connection, other).await?;
        self.connection = Some((connection, other));
        Ok(Tried::Done)
    }
}

/// Exchanges `one` and `other`, unless that has been done for the step that ends at `end`.
async fn exchange(connection: &mut Connection, (one, other): (u8, u8), end: &Position) -> Result<Tried> {
    let named = end.to_string();
    select(connection, other).await?;
    connection.ask(&[b"WATCH".as_slice(), EXCHANGED]).await?;
    let reply = connection.ask(&[b"GET".as_slice(), EXCHANGED]).await?;
    if reply.text() == Some(named.as_bytes()) {
        return Ok(Tried::Done);
    }
    select(connection, one).await?;
    connection.ask(&[b"SET".as_slice(), EXCHANGED, named.as_bytes()]).await?;
    connection.ask(&[b"WATCH".as_slice(), EXCHANGED]).await?;
    let mut requests = Requests::default();
    requests.push(&["MULTI"]);
    requests.push(&["SWAPDB", &one.to_string(), &other.to_string()]);
    requests.push(&["EXEC"]);
    let replies = connection.exchange(&requests, 0).await?;
    let inner = match replies.last() {
        Some(Reply::Array(Some(answers))) => answers.first().and_then(Reply::error),
        Some(Reply::Array(None) | Reply::Bulk(None)) => return Ok(Tried::Unclear),
        _ => None,
    };
    match replies.iter().find_map(Reply::error).or(inner) {
        None if replies.len() == 3 => Ok(Tried::Done),
        None => Err(Failure::broken("the target answers something else")),
        Some(error) => match judge(error, false) {
            Verdict::Again(wait_ms) => Ok(Tried::Again(wait_ms)),
            Verdict::Unclear => Err(Failure::broken(format!("SWAPDB {one} {other}: {error}"))),
            // All that the source does from here on would be done in other databases.
            _ => Err(Failure::ended(&format!("SWAPDB {one} {other}: {error}"))),
        },
    }
}
