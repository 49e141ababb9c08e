//! The closed loop: a client sends its next operation when the last one is answered, so that a store that is slow is
//! asked less.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_io::{Nanos, Result, Rng, sleep_until};

use crate::data::{Choice, fill, key};
use crate::load::{Clients, scan_length};
use crate::mix::{Kind, Mix};
use crate::queue::Target;

/// What the clients of a partition share: which items they ask for.
#[derive(Clone)]
pub struct Choices {
    /// Of gets, and where scans begin.
    pub reads: Arc<Choice>,
    /// Of inserts.
    pub inserts: Arc<Choice>,
    /// Operations that the clients of the partition have sent.
    pub sent: Arc<AtomicU64>,
}

impl Clients {
    /// One client: sends what `mix` draws until `until`, resting for about `own_time` before each operation.
    ///
    /// # Errors
    /// That of the first insert that fails; no more are sent.
    pub async fn loop_of_one(
        self,
        mix: Mix,
        own_time: Nanos,
        until: Nanos,
        choices: Choices,
        mut rng: Rng,
    ) -> Result<()> {
        let mut value = vec![0; self.sizes.value_bytes_max()];
        loop {
            let at = self.clock.now() + (own_time as f64 * (0.5 + rng.unit())) as Nanos;
            if at >= until {
                return Ok(());
            }
            sleep_until(&self.clock, at).await;
            let kind = mix.kind(choices.sent.fetch_add(1, Ordering::Relaxed));
            if kind == Kind::Insert {
                let item = choices.inserts.draw(&mut rng);
                let value = &mut value[..self.sizes.value_bytes(item)];
                fill(value, &mut rng);
                self.put(&key(item), value).await?;
                self.tally.lock().wrote(self.index, self.clock.now() - at, true);
            } else {
                let entries = (kind == Kind::Scan).then(|| scan_length(mix.entries, &mut rng));
                let item = choices.reads.draw(&mut rng);
                self.tally.lock().partition_reads[self.index].0 += 1;
                let found = self.read_one(item, entries).await;
                let mut tally = self.tally.lock();
                match found {
                    Ok(true) => tally.read(self.index, self.clock.now() - at),
                    _ => tally.reads_failed += 1,
                }
            }
        }
    }
}
