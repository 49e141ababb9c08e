//! The bill: hands over what tenants have used to the node's book each minute, and shows it to operators.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use futures_util::lock::Mutex;
use weir_io::{Class, Clock, Result};
use weir_node::{BillBook, BillEdit, BillLine, Node, Usage};

use super::wire;
use crate::tenant::account::Costs;

/// Milliseconds of an hour.
const HOUR_MS: u64 = 3_600_000;
/// Seconds of an hour.
const HOUR_SECONDS: u64 = 3600;

/// What commands have cost since the start, by tenant.
pub type CostsSoFar = Box<dyn Fn() -> BTreeMap<u32, Costs> + Send + Sync>;

/// The bill of a node.
pub struct Bill {
    node: Arc<Node>,
    clock: Arc<dyn Clock>,
    costs: CostsSoFar,
    state: Mutex<BookState>,
}

struct BookState {
    /// The book, or why there is none: the one in the directory cannot be read.
    book: Result<BillBook>,
    /// The part of each tenant's counters that is in the book already.
    handed_over: BTreeMap<u32, Usage>,
    /// The minutes that are not in the book yet, and what was held in them, for each tenant that existed then.
    held: BTreeMap<u32, Usage>,
}

impl Bill {
    /// The bill of `node`. `costs` tells what the commands of its tenants have cost. A book that cannot be read is left
    /// alone, and then no bill is kept.
    pub async fn open(node: Arc<Node>, clock: Arc<dyn Clock>, costs: CostsSoFar) -> Self {
        let book = node.bill_book().await.inspect_err(|error| {
            tracing::error!(
                %error,
                "cannot read the bill, so nothing is added to it: move the directory `bill` away and restart the server"
            );
        });
        Self {
            node,
            clock,
            costs,
            state: Mutex::new(BookState { book, handed_over: BTreeMap::new(), held: BTreeMap::new() }),
        }
    }

    /// Hands over what was used since the last call. `minutes` is how many minutes have passed since the last call with
    /// any.
    ///
    /// # Errors
    /// There is no bill, or it could not be written. Then what was used is handed over the next time.
    pub async fn record(&self, minutes: u64) -> Result<()> {
        let mut state = self.state.lock().await;
        let BookState { book, handed_over, held } = &mut *state;
        let hour = u32::try_from(self.clock.unix_ms() / HOUR_MS).unwrap_or(u32::MAX);
        let (costs, booked) = ((self.costs)(), self.node.ledger().tenants());
        let (mut lines, mut counted) = (Vec::new(), Vec::new());
        let tenants = self.node.tenants();
        // For dropped tenants nothing is handed over any more.
        let there: BTreeSet<u32> = tenants.iter().map(|tenant| tenant.id().0).collect();
        handed_over.retain(|id, _| there.contains(id));
        held.retain(|id, _| there.contains(id));
        for tenant in tenants {
            let id = tenant.id().0;
            let cost = costs.get(&id);
            let counters = Usage {
                commands: cost.map_or(0, |cost| cost.commands),
                milli_units: cost.map_or(0, |cost| cost.price.milli_units),
                device: booked.get(&id).map(Usage::device_of).unwrap_or_default(),
                ..Usage::default()
            };
            let mut usage = counters.since(&handed_over.get(&id).copied().unwrap_or_default());
            let mut now = Usage {
                disk_byte_minutes: tenant.disk_use().stored.saturating_mul(minutes),
                memory_byte_minutes: tenant.memory_use().unwrap_or(0).saturating_mul(minutes),
                ..Usage::default()
            };
            if !(usage.is_nothing() && now.is_nothing()) {
                now.minutes = minutes;
            }
            // If it cannot be written now, it counts the next time, for the tenants that exist now.
            let unwritten = held.entry(id).or_default();
            *unwritten += now;
            usage += *unwritten;
            if !usage.is_nothing() {
                lines.push(BillLine { hour, tenant: id, name: tenant.name().to_string(), usage });
                counted.push((id, counters));
            }
        }
        let book = book.as_mut().map_err(|error| error.clone())?;
        if !lines.is_empty() {
            book.add(&BillEdit { lines }).await?;
        }
        handed_over.extend(counted);
        held.clear();
        Ok(())
    }

    /// The hours that begin at `from_seconds` since 1970 or later, and before `to_seconds`, including what was used
    /// until now.
    ///
    /// # Errors
    /// There is no bill.
    pub async fn lines(&self, from_seconds: u64, to_seconds: u64) -> Result<wire::Bill> {
        self.record(0).await?;
        // A bound in the middle of an hour means the next full hour.
        let hour = |seconds: u64| u32::try_from(seconds.div_ceil(HOUR_SECONDS)).unwrap_or(u32::MAX);
        let state = self.state.lock().await;
        let book = state.book.as_ref().map_err(|error| error.clone())?;
        let lines = book.lines(hour(from_seconds), hour(to_seconds));
        Ok(wire::Bill { lines: lines.into_iter().map(shown).collect() })
    }
}

fn shown(line: BillLine) -> wire::BillLine {
    let BillLine { hour, tenant, name, usage } = line;
    let mean = |sum: u64| sum / usage.minutes.max(1);
    let cause =
        |(class, [read, written]): (Class, [u64; 2])| wire::Cause { class: class.name().to_owned(), read, written };
    wire::BillLine {
        hour_unix_seconds: u64::from(hour) * HOUR_SECONDS,
        tenant,
        name,
        commands: usage.commands,
        request_milli_units: usage.milli_units,
        minutes: usage.minutes,
        disk_bytes: mean(usage.disk_byte_minutes),
        memory_bytes: mean(usage.memory_byte_minutes),
        device: Class::ALL.into_iter().zip(usage.device).map(cause).collect(),
    }
}

impl wire::Bill {
    /// The bill as comma-separated values, one line for each hour and tenant.
    pub fn csv(&self) -> String {
        let mut text =
            "hour_unix_seconds,tenant,name,commands,request_units,minutes,disk_bytes,memory_bytes".to_owned();
        for class in Class::ALL {
            // Writing to a string cannot fail.
            let _ = write!(text, ",{0}_read_bytes,{0}_written_bytes", class.name());
        }
        text.push('\n');
        for line in &self.lines {
            let (units, thousandths) = (line.request_milli_units / 1000, line.request_milli_units % 1000);
            let _ = write!(
                text,
                "{},{},{},{},{units}.{thousandths:03},{},{},{}",
                line.hour_unix_seconds,
                line.tenant,
                line.name,
                line.commands,
                line.minutes,
                line.disk_bytes,
                line.memory_bytes
            );
            for cause in &line.device {
                let _ = write!(text, ",{},{}", cause.read, cause.written);
            }
            text.push('\n');
        }
        text
    }
}
