//! Tests ask a partition by commands of words.

use std::sync::Arc;

use weir_command::reply::Protocol;
use weir_command::{Headless, Request, table};
use weir_io::sim::Sim;
use weir_io::{Rng, Yield};
use weir_model::VALUE_BYTES_MAX;

use super::Partition;

/// Runs the command `line` at the moment that the partition's clock shows, tells its events, and waits for its commit;
/// gives the answer.
pub(super) fn ask(sim: &Sim, partition: &Arc<Partition>, line: &str) -> String {
    let request = Request::new(0, partition.clock.unix_ms(), line.split(' ').map(str::as_bytes));
    let command = table::find(request.args().at(0)).expect("a command");
    let mut host = Headless::new(Protocol::Resp2, Yield::PLAIN, Rng::new(1));
    let mut call = request.call(VALUE_BYTES_MAX);
    call.wants = partition.witnessed.wants();
    let outcome = sim.block_on(async {
        let (outcome, commit) =
            partition.execute(command, request.args(), &mut host, &mut call).await.expect("no faults");
        if let Some(commit) = commit {
            commit.await.expect("no faults");
        }
        outcome
    });
    String::from_utf8(host.take_answer(&outcome)).expect("text")
}
