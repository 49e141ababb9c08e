//! How a step is requested: as a transaction, as a script, as a function, or as one inside the other. In every way it
//! happens as a whole or not at all.

use super::step::{Words, keys, step};
use crate::reply::Reply;

/// Runs the commands whose words are in `ARGV`, each with its number of words in front. If one word is left over at the
/// end, the script fails with it.
const BODY: &str = "\
local at = 1
while at < #args do
  local count = tonumber(args[at])
  redis.call(unpack(args, at + 1, at + count))
  at = at + count + 1
end
if at == #args then error({err = args[at]}) end
return redis.status_reply('OK')";

/// The error of a script that is to fail after it has done everything.
const PLANNED: &str = "PLANNED the step is taken";

/// The way in which a step is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// `MULTI` and `EXEC`.
    Transaction,
    /// `EVAL` with all of its keys.
    Script,
    /// `EVAL` that finds its keys while it runs, and runs again for each.
    Undeclared,
    /// `FCALL`.
    Function,
    /// Commands and a script in a transaction.
    ScriptInTransaction,
    /// A script that fails at its end: what it had asked for is done, as in Redis.
    Failing,
}

const WAYS: [Way; 6] =
    [Way::Transaction, Way::Script, Way::Undeclared, Way::Function, Way::ScriptInTransaction, Way::Failing];

/// The library from which a client calls functions: it says with which step it came.
pub fn library(client: &str, n: u64) -> Words {
    let code = format!(
        "#!lua name=steps_{client}\n\
         redis.register_function('step_{client}', function(keys, args) {BODY} end)\n\
         redis.register_function('version_{client}', function() return '{n}' end)"
    );
    ["FUNCTION", "LOAD", "REPLACE", &code].map(ToOwned::to_owned).to_vec()
}

/// Asks with which step the library of a client came.
pub fn version(client: &str) -> Words {
    ["FCALL", &format!("version_{client}"), "0"].map(ToOwned::to_owned).to_vec()
}

/// A script or function, with its keys where it `declares` them, and with `commands`.
fn call(rows: &str, head: [String; 2], declares: bool, commands: &[Words], last: Option<&str>) -> Words {
    let keys = if declares { keys(rows) } else { Vec::new() };
    let mut words = head.to_vec();
    words.push(keys.len().to_string());
    words.extend(keys);
    for command in commands {
        words.push(command.len().to_string());
        words.extend(command.iter().cloned());
    }
    words.extend(last.map(ToOwned::to_owned));
    words
}

/// The commands that are sent for step `n` of a client.
pub fn sent(client: &str, n: u64) -> Vec<Words> {
    let commands = step(client, n);
    let eval = || ["EVAL".to_owned(), format!("local args = ARGV\n{BODY}")];
    let one = |word: &str| vec![word.to_owned()];
    match way(n) {
        Way::Transaction => [vec![one("MULTI")], commands, vec![one("EXEC")]].concat(),
        Way::Script => vec![call(client, eval(), true, &commands, None)],
        Way::Undeclared => vec![call(client, eval(), false, &commands, None)],
        Way::Function => {
            vec![call(client, ["FCALL".to_owned(), format!("step_{client}")], true, &commands, None)]
        }
        Way::ScriptInTransaction => {
            let (before, rest) = commands.split_at(commands.len() / 3);
            let (within, after) = rest.split_at(rest.len() / 2);
            let script = call(client, eval(), false, within, None);
            [vec![one("MULTI")], before.to_vec(), vec![script], after.to_vec(), vec![one("EXEC")]].concat()
        }
        Way::Failing => vec![call(client, eval(), true, &commands, Some(PLANNED))],
    }
}

fn way(n: u64) -> Way {
    WAYS[(n % WAYS.len() as u64) as usize]
}

/// Checks that these are all the replies to what was [`sent`] for step `n`, and that the step was taken.
///
/// # Errors
/// The reply that came instead.
pub fn judge(n: u64, replies: &[Reply]) -> Result<(), String> {
    let refused = replies.iter().find_map(Reply::any_error);
    match (way(n), refused) {
        (Way::Failing, Some(why)) if why.starts_with(PLANNED) => Ok(()),
        (Way::Failing, other) => Err(format!("step {n} did not fail as it should: {other:?}")),
        (way, Some(why)) => Err(format!("step {n} ({way:?}) was refused: {why}")),
        (_, None) => Ok(()),
    }
}
