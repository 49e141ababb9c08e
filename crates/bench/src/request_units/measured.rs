//! The measurement of one case: how often its commands go through each module, and what they take.

use std::fs;
use std::path::Path;

use weir_admission::request_units::{CostTable, Dimension, Module};

use super::cases::{Case, Words};
use crate::Result;
use crate::child_server::ChildServer;
use crate::meter::Stopwatch;
use crate::wire::{self, Client, Reply};

/// How often each case is measured; the least result counts, because everything else on the machine only adds to it.
const TURNS: usize = 5;
/// How long the commands run before they are measured, in milliseconds.
const SETTLE_MILLIS: u64 = 15;
/// Threads that serve clients, by the beginnings of their names; all other threads work for everybody.
const SERVING: [&str; 4] = ["gateway", "weir-io-fg", "weir-io-ring", "script"];

/// What one command of a case takes.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The case.
    pub name: String,
    /// Whether the case is not used for the table.
    pub held_out: bool,
    /// How often it goes through each module, in the order of [`Module::ALL`].
    pub counts: [f64; Module::ALL.len()],
    /// Processor time, in nanoseconds.
    pub nanos: f64,
    /// Bytes that are read from the device for it, and written to its log.
    pub device_bytes: f64,
}

impl Measured {
    /// What the command takes of `dimension` according to `table`.
    pub fn predicted(&self, table: &CostTable, dimension: Dimension) -> f64 {
        let each = |module: Module| self.counts[module as usize] * table[module][dimension] as f64 / 1000.0;
        Module::ALL.into_iter().map(each).sum()
    }
}

/// Measures every case in turn, and then all of them again, [`TURNS`] times: what disturbs one measurement of a case
/// does not last until the next. `progress` hears the case and how many thousandths are done.
pub(super) fn measure(
    server: &ChildServer,
    client: &mut Client,
    cases: &[Case],
    millis: u64,
    progress: &mut dyn FnMut(&str, u64),
) -> Result<Vec<Measured>> {
    let mut best: Vec<Option<Measured>> = vec![None; cases.len()];
    for turn in 0..TURNS {
        for (number, (case, best)) in cases.iter().zip(&mut best).enumerate() {
            let done = turn * cases.len() + number;
            progress(&case.name, 1000 * done as u64 / (TURNS * cases.len()) as u64);
            let one = once(server, client, case, millis).map_err(|error| format!("{}: {error}", case.name))?;
            let device_bytes = best.as_ref().map_or(one.device_bytes, |best| best.device_bytes.min(one.device_bytes));
            if best.as_ref().is_none_or(|best| one.nanos < best.nanos) {
                *best = Some(one);
            }
            best.iter_mut().for_each(|best| best.device_bytes = device_bytes);
        }
    }
    Ok(best.into_iter().flatten().collect())
}

/// What the commands of `case` take during `millis`, and how often they go through each module meanwhile.
fn once(server: &ChildServer, client: &mut Client, case: &Case, millis: u64) -> Result<Measured> {
    run(client, &case.setup, false)?;
    // Meanwhile the server gives back what was there before, which must not count for these commands.
    let watch = Stopwatch::start();
    while watch.nanos() < SETTLE_MILLIS * 1_000_000 {
        run(client, &case.body, case.alone)?;
    }
    client.call(&[b"RU", b"RESET"])?;
    let (before, device_before) = (processor_nanos(server)?, device(server)?);
    let (watch, mut commands) = (Stopwatch::start(), 0_u64);
    while commands == 0 || watch.nanos() < millis * 1_000_000 {
        run(client, &case.body, case.alone)?;
        commands += case.body.len() as u64;
    }
    let nanos = processor_nanos(server)?.saturating_sub(before);
    let device_bytes = device(server)?.saturating_sub(device_before);
    let each = |sum: u64| sum as f64 / commands as f64;
    let counts = sum(client)?.map(each);
    let Case { name, held_out, .. } = case;
    Ok(Measured {
        name: name.clone(),
        held_out: *held_out,
        counts,
        nanos: each(nanos),
        device_bytes: each(device_bytes),
    })
}

/// Sends commands and reads their replies.
fn run(client: &mut Client, commands: &[Words], alone: bool) -> Result<()> {
    let push = |client: &mut Client, words: &Words| {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        client.push(&words);
    };
    if !alone {
        commands.iter().for_each(|words| push(client, words));
        client.flush()?;
    }
    for words in commands {
        if alone {
            push(client, words);
            client.flush()?;
        }
        if let Reply::Line(line) = client.read()?
            && line.starts_with('-')
        {
            return Err(format!("{}: {line}", String::from_utf8_lossy(&words[0])).into());
        }
    }
    Ok(())
}

/// How often the commands since `RU RESET` went through each module.
fn sum(client: &mut Client) -> Result<[u64; Module::ALL.len()]> {
    let Reply::Array(told) = client.call(&[b"RU", b"SUM"])? else { return Err("RU SUM told no map".into()) };
    let Some(Reply::Array(modules)) = told.last() else { return Err("RU SUM told no modules".into()) };
    let mut counts = [0; Module::ALL.len()];
    for pair in modules.chunks_exact(2) {
        let [Reply::Bulk(Some(name)), Reply::Integer(count)] = pair else { return Err("no module".into()) };
        let module = Module::ALL.into_iter().find(|module| module.name().as_bytes() == name.as_slice());
        counts[module.ok_or("an unknown module")? as usize] = u64::try_from(*count)?;
    }
    Ok(counts)
}

/// Processor time of the threads that serve clients.
fn processor_nanos(server: &ChildServer) -> Result<u64> {
    let mut sum = 0;
    for task in fs::read_dir(format!("/proc/{}/task", server.process()))? {
        let path = task?.path();
        let Ok(name) = fs::read_to_string(path.join("comm")) else { continue };
        if SERVING.iter().any(|serving| name.starts_with(serving)) {
            sum += nanos_of(&path)?.unwrap_or(0);
        }
    }
    Ok(sum)
}

/// Processor time of the thread that has this directory; `None` if it has ended since the directory was listed.
fn nanos_of(task: &Path) -> Result<Option<u64>> {
    let stat = match fs::read_to_string(task.join("schedstat")) {
        Ok(stat) => stat,
        Err(_) if !task.exists() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let nanos = stat.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Ok(Some(nanos.ok_or("the kernel tells no processor time of threads")?))
}

/// Bytes read from the device for clients, and written to logs.
fn device(server: &ChildServer) -> Result<u64> {
    let csv = wire::http_get(server.admin(), "/v1/ledger.csv")?;
    let mut lines = csv.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let places: Vec<usize> = ["read_read_bytes", "log_written_bytes"]
        .iter()
        .map(|name| names.iter().position(|other| other == name).ok_or(format!("the ledger has no {name}: {names:?}")))
        .collect::<std::result::Result<_, _>>()?;
    let of = |line: &str| -> u64 {
        let fields: Vec<&str> = line.split(',').collect();
        places.iter().filter_map(|&place| fields.get(place)?.parse::<u64>().ok()).sum()
    };
    Ok(lines.map(of).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_has_ended_takes_nothing() {
        assert_eq!(nanos_of(Path::new("/proc/self/task/0")).ok(), Some(None));
        assert!(nanos_of(Path::new(env!("CARGO_MANIFEST_DIR"))).is_err(), "it is there, and tells nothing");
    }
}
