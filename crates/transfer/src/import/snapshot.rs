//! Loads a dump into a tenant, as a stream.

use std::sync::atomic::Ordering;

use super::{Import, OWN_NAME, is_own};
use crate::failure::{Failure, Result};
use crate::pace::Pace;
use crate::rdb::{Bytes, Dump, Item, Key, Part, Value};
use crate::target::{DATABASES, Lanes, Whole, push_function, push_part, push_whole};

/// Writes everything that comes from `dump`. When this is done, the tenant has all of it.
pub(super) async fn load<B: Bytes>(import: &Import, dump: &mut Dump<B>) -> Result {
    let lanes = Lanes::new(&import.target, &import.tally).within(dump.value_bytes_max());
    let mut lanes = lanes.at_rate(import.choice.rate);
    let all = load_all(import, dump, &mut lanes).await;
    // Finish also if the source broke off: nothing that was sent may be done after what comes next.
    let written = lanes.finish().await;
    all.and(written)
}

async fn load_all<B: Bytes>(import: &Import, dump: &mut Dump<B>, lanes: &mut Lanes) -> Result {
    let mut pace = Pace::new(import.clock.clone(), import.choice.rate);
    let mut before = 0;
    loop {
        let item = dump.next().await?;
        tell(import, dump, &mut pace, &mut before).await;
        match item {
            Item::Key(key) => load_key(import, dump, key, lanes, &mut pace, &mut before).await?,
            Item::Functions(source) => {
                let batch = lanes.batch(0, b"functions").await?;
                // Each library counts by itself if it is refused, so it goes as a key of its own. The first line of its
                // source has its name.
                let line = source.split(|&byte| byte == b'\n').next().unwrap_or_default();
                batch.begin(line);
                push_function(batch, &source);
            }
            Item::ModuleAux(module) if !import.choice.skip_modules => return Err(of_a_module("something", &module)),
            Item::ModuleAux(_) => {}
            Item::End => return Ok(()),
        }
    }
}

fn of_a_module(what: &str, module: &str) -> Failure {
    Failure::new(format!(
        "{what} is of the module {module}, whose data no other server can read: --skip-modules leaves such out, and \
         counts them"
    ))
}

/// Counts what was read, and waits if that is more than the rate allows.
async fn tell<B: Bytes>(import: &Import, dump: &Dump<B>, pace: &mut Pace, before: &mut u64) {
    let consumed = dump.consumed();
    import.tally.bytes.store(consumed, Ordering::Relaxed);
    import.tally.keys_expected.store(dump.announced(), Ordering::Relaxed);
    pace.spend(consumed - *before).await;
    *before = consumed;
}

async fn load_key<B: Bytes>(
    import: &Import,
    dump: &mut Dump<B>,
    key: Key,
    lanes: &mut Lanes,
    pace: &mut Pace,
    before: &mut u64,
) -> Result {
    let tally = &import.tally;
    let Key { database, name, expire_at_ms, value } = key;
    if !import.choice.has(database) {
        tally.others.fetch_add(1, Ordering::Relaxed);
        return Ok(());
    }
    if let Value::Module(module) = &value {
        if !import.choice.skip_modules {
            return Err(of_a_module(&format!("the key \"{}\"", crate::tally::shown(&name)), module));
        }
        tally.modules.fetch_add(1, Ordering::Relaxed);
        return Ok(());
    }
    let Some(at) = u8::try_from(database).ok().filter(|&at| at < DATABASES) else {
        tally.refuse(database, &name, "a tenant has 16 databases, 0 to 15");
        return Ok(());
    };
    // An import that is started again would take it for the position of this one.
    if is_own(&name) {
        tally.refuse(database, &name, OWN_NAME);
        return Ok(());
    }
    // While its expiry is paused, the target takes what the source may have given more time meanwhile.
    if expire_at_ms.is_some_and(|end| import.target.has_expired(end)) {
        tally.expired.fetch_add(1, Ordering::Relaxed);
        return Ok(());
    }
    let whole = Whole { key: &name, expire_at_ms };
    match value {
        Value::Text(text) => lanes.set(at, &whole, &text).await?,
        Value::Whole(body) => {
            let batch = lanes.batch(at, &name).await?;
            push_whole(batch, &whole, body).await;
            batch.finish();
        }
        Value::TooLong(bytes) => {
            tally.refuse(database, &name, &format!("its value has {bytes} bytes, more than the target takes"));
        }
        Value::Parts(_) => load_parts(import, dump, at, &whole, lanes, pace, before).await?,
        Value::Module(_) => {}
    }
    Ok(())
}

async fn load_parts<B: Bytes>(
    import: &Import,
    dump: &mut Dump<B>,
    database: u8,
    whole: &Whole<'_>,
    lanes: &mut Lanes,
    pace: &mut Pace,
    before: &mut u64,
) -> Result {
    let batch = lanes.batch(database, whole.key).await?;
    batch.push(&[b"DEL".as_slice(), whole.key]);
    let (mut len, mut refused) = (0, batch.why_left_out().map(str::to_owned));
    while let Some(part) = dump.part().await? {
        tell(import, dump, pace, before).await;
        match part {
            Part::Refused(reason) => refused = refused.or(Some(reason)),
            // The rest of a refused key is only read.
            _ if refused.is_some() => {}
            part => {
                let batch = lanes.batch(database, whole.key).await?;
                len = push_part(batch, whole.key, len, part);
                refused = batch.why_left_out().map(str::to_owned);
            }
        }
    }
    let batch = lanes.batch(database, whole.key).await?;
    if let Some(reason) = refused {
        batch.leave_out(reason);
        batch.push(&[b"DEL".as_slice(), whole.key]);
        return Ok(());
    }
    if let Some(at_ms) = whole.expire_at_ms {
        batch.push(&[b"PEXPIREAT".as_slice(), whole.key, at_ms.to_string().as_bytes()]);
    }
    batch.finish();
    Ok(())
}

#[cfg(test)]
mod fake_dump;
#[cfg(test)]
mod fake_store;
#[cfg(test)]
mod faults;
