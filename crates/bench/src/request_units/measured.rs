//! One case: how often its commands go through which module, and what they take.

use std::fs;

use weir_admission::request_units::{CostTable, Dimension, Module};

use super::cases::{Case, Words};
use crate::Result;
use crate::child_server::ChildServer;
use crate::meter::Stopwatch;
use crate::wire::{self, Client, Reply};

/// Each case is measured so often; the least counts, as everything else on the machine only adds.
const TIMES: usize = 3;
/// Threads that serve clients, by the beginnings of their names; all others work for everybody.
const SERVING: [&str; 4] = ["gateway", "weir-io-fg", "weir-io-ring", "script"];

/// What one command of a case takes.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The case.
    pub name: String,
    /// It tells nothing to the table.
    pub held_out: bool,
    /// How often it goes through each module, in the order of [`Module::ALL`].
    pub counts: [f64; Module::ALL.len()],
    /// Processor time, in nanoseconds.
    pub nanos: f64,
    /// Bytes that are read from the device for it, and written to its log.
    pub device_bytes: f64,
}

impl Measured {
    /// What `table` says that it takes of `dimension`.
    pub fn predicted(&self, table: &CostTable, dimension: Dimension) -> f64 {
        let each = |module: Module| self.counts[module as usize] * table[module][dimension] as f64 / 1000.0;
        Module::ALL.into_iter().map(each).sum()
    }
}

pub(super) fn measure(server: &ChildServer, client: &mut Client, case: &Case, millis: u64) -> Result<Measured> {
    run(client, &case.setup, false)?;
    run(client, &case.body, case.alone)?;
    let counts = counts(client, case)?;
    let (mut nanos, mut device_bytes) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..TIMES {
        let (before, device_before) = (processor_nanos(server)?, device(server)?);
        let (watch, mut commands) = (Stopwatch::start(), 0_u64);
        while watch.nanos() < millis * 1_000_000 {
            run(client, &case.body, case.alone)?;
            commands += case.body.len() as u64;
        }
        let used = processor_nanos(server)?.saturating_sub(before);
        nanos = nanos.min(used as f64 / commands as f64);
        device_bytes = device_bytes.min(device(server)?.saturating_sub(device_before) as f64 / commands as f64);
    }
    Ok(Measured { name: case.name.clone(), held_out: case.held_out, counts, nanos, device_bytes })
}

/// The mean of all commands of the body. In a pipeline those behind the first share what is done once for all: each
/// kind is asked about as the last of a pipeline, and the first as the only one.
fn counts(client: &mut Client, case: &Case) -> Result<[f64; Module::ALL.len()]> {
    let mut sum = [0.0; Module::ALL.len()];
    let mut add = |counts: [u64; Module::ALL.len()], times: f64| {
        sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count as f64 * times);
    };
    let each = (case.body.len() / case.period) as f64;
    for kind in 0..case.period {
        let end = case.body.len() - case.period + kind + 1;
        run(client, &case.body[..end], case.alone)?;
        add(last(client)?, each);
        run(client, &case.body[end..], case.alone)?;
    }
    if !case.alone && case.body.len() > case.period {
        run(client, &case.body[..1], false)?;
        let first = last(client)?;
        run(client, &case.body[1..], false)?;
        // Once in each pipeline. What it took with others in front of it is in the sum already.
        let end = case.body.len() - case.period + 1;
        run(client, &case.body[..end], false)?;
        add(first, 1.0);
        let steady = last(client)?;
        sum.iter_mut().zip(steady).for_each(|(sum, count)| *sum -= count as f64);
        run(client, &case.body[end..], false)?;
    }
    Ok(sum.map(|sum| sum / case.body.len() as f64))
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

/// What the command before was counted as.
fn last(client: &mut Client) -> Result<[u64; Module::ALL.len()]> {
    let Reply::Array(told) = client.call(&[b"RU", b"LAST"])? else { return Err("RU LAST told no map".into()) };
    let Some(Reply::Array(modules)) = told.last() else { return Err("RU LAST told no modules".into()) };
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
            let stat = fs::read_to_string(path.join("schedstat"))?;
            let nanos = stat.split(' ').next().and_then(|nanos| nanos.parse::<u64>().ok());
            sum += nanos.ok_or("the kernel tells no processor time of threads")?;
        }
    }
    Ok(sum)
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
