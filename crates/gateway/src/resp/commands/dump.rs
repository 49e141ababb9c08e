//! `DUMP`, `RESTORE` and `MIGRATE`: values on their way between servers.

use weir_model::Change;

use super::{integer, upper, value_bytes_max};
use crate::resp::connection::Connection;
use crate::resp::error::{Error, Outcome, SYNTAX, TOO_LONG};
use crate::resp::frame::Args;
use crate::resp::rdb::{self, Refusal};
use crate::store::Store;

pub(in crate::resp) async fn dump<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    match connection.get(args.at(1)).await? {
        Some(entry) => {
            let payload = rdb::encode(&entry.value).await;
            connection.replies.bulk_value(payload);
        }
        None => connection.replies.null(),
    }
    Ok(())
}

/// The words behind `RESTORE key ttl payload`. How long a key was idle and how often it was used is checked and forgotten.
#[derive(Default)]
struct Options {
    replace: bool,
    absolute: bool,
    idle: bool,
    frequency: bool,
}

impl Options {
    fn parse(args: Args<'_>) -> Outcome<Self> {
        let mut options = Self::default();
        let mut words = args.iter_from(4);
        while let Some(word) = words.next() {
            match upper(word).as_slice() {
                b"REPLACE" => options.replace = true,
                b"ABSTTL" => options.absolute = true,
                b"IDLETIME" if !options.frequency => {
                    if integer(words.next().ok_or(SYNTAX)?)? < 0 {
                        return Err(Error::new("ERR Invalid IDLETIME value, must be >= 0"));
                    }
                    options.idle = true;
                }
                b"FREQ" if !options.idle => {
                    if !(0..=255).contains(&integer(words.next().ok_or(SYNTAX)?)?) {
                        return Err(Error::new("ERR Invalid FREQ value, must be >= 0 and <= 255"));
                    }
                    options.frequency = true;
                }
                _ => return Err(SYNTAX),
            }
        }
        Ok(options)
    }
}

/// When the key ends, in milliseconds since 1970, from the `ttl` argument.
fn end_of(ttl: &[u8], options: &Options, now_ms: u64) -> Outcome<Option<u64>> {
    let ttl = u64::try_from(integer(ttl)?).map_err(|_| Error::new("ERR Invalid TTL value, must be >= 0"))?;
    Ok((ttl > 0).then_some(if options.absolute { ttl } else { ttl.saturating_add(now_ms) }))
}

pub(in crate::resp) async fn restore<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    let key = args.at(1);
    let options = Options::parse(args)?;
    let now_ms = connection.server.clock.unix_ms();
    let max = value_bytes_max(connection);
    // Decoding takes its time outside the store. Whether the key is there is answered first, whatever the rest is like.
    let decoded = match end_of(args.at(2), &options, now_ms) {
        Ok(end) => match rdb::decode(args.at(3), max).await {
            Ok(value) => Ok((end, value)),
            Err(Refusal::VersionOrChecksum) => Err(Error::new("ERR DUMP payload version or checksum are wrong")),
            Err(Refusal::TooLong) => Err(TOO_LONG),
            Err(Refusal::Format) => Err(Error::new("ERR Bad data format")),
        },
        Err(error) => Err(error),
    };
    connection
        .try_update(&[key], |entries, batch| {
            if entries[0].is_some() && !options.replace {
                return Err(Error::new("BUSYKEY Target key name already exists."));
            }
            let (expire_at_ms, value) = decoded?;
            if expire_at_ms.is_none_or(|end| end > now_ms) {
                batch.push(Change::Put { key, value: &value, expire_at_ms });
            } else if entries[0].is_some() {
                batch.delete(key);
            }
            Ok(())
        })
        .await?;
    connection.replies.ok();
    Ok(())
}

/// A server that opens connections to addresses a client names is a hole in the wall between tenants.
pub(in crate::resp) async fn migrate<S: Store>(_: &mut Connection<S>, _: Args<'_>) -> Outcome {
    Err(Error::new("ERR MIGRATE is not supported: use DUMP here and RESTORE there"))
}
