//! `MEMORY USAGE`: about how many bytes a key takes with its value. The other subcommands of `MEMORY` are about a
//! session.

use super::integer;
use crate::args::Args;
use crate::context::Context;
use crate::error::{Outcome, SYNTAX};
use crate::table::subcommands;

/// About how many bytes a key costs besides its own: entry, index and filter.
const KEY_OVERHEAD_BYTES: usize = 64;

pub async fn usage(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    subcommands::check("memory", args)?;
    let mut words = args.iter_from(3);
    while let Some(word) = words.next() {
        if !word.eq_ignore_ascii_case(b"SAMPLES") || integer(words.next().ok_or(SYNTAX)?)? < 0 {
            return Err(SYNTAX);
        }
    }
    match cx.get(args.at(2)).await? {
        Some(row) => {
            let key_bytes = (args.at(2).len() + KEY_OVERHEAD_BYTES) as u64;
            cx.replies().integer(row.bytes_with_parts().saturating_add(key_bytes) as i64);
        }
        None => cx.replies().null(),
    }
    Ok(())
}
