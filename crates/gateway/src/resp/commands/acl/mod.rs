//! `ACL`: the users of the tenant to which this connection belongs. Users of other tenants do not exist here.

mod change;
mod log;
mod show;

use weir_command::acl;
use weir_command::error::{Error, NOT_AN_INTEGER, Outcome};
use weir_command::number::parse_i64;
use weir_command::table::{self, Categories};
use weir_command::{Args, lower};

use crate::auth::secret;
use crate::resp::outbox::YIELD;
use crate::resp::session::Session;
use crate::store::Store;

/// How many bits a generated password may have.
const GENERATED_BITS_MAX: i64 = 4096;

const HELP: [&str; 12] = [
    "CAT [<category>]: the categories, or the commands in one.",
    "DELUSER <user> [<user> ...]: deletes users, and cuts their connections.",
    "DRYRUN <user> <command> [<argument> ...]: whether a user may run a command.",
    "GENPASS [<bits>]: a random password.",
    "GETUSER <user>: what a user may do.",
    "LIST: the users and their rules.",
    "LOAD | SAVE: nothing to do, what is valid is what is stored.",
    "LOG [<count> | RESET]: what users were refused.",
    "SETUSER <user> [<rule> ...]: makes or changes a user.",
    "USERS: the names of the users.",
    "WHOAMI: the user whose connection this is.",
    "HELP: this text.",
];

pub(in crate::resp) async fn acl<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let subcommand = lower(args.at(1));
    match subcommand.as_slice() {
        b"whoami" => {
            let name = session.user()?.name().to_vec();
            session.outbox.replies.bulk(&name);
        }
        b"users" => show::users(session)?,
        b"list" => show::list(session)?,
        b"getuser" => show::get_user(session, args.at(2))?,
        b"setuser" => change::set_user(session, args).await?,
        b"deluser" => change::delete_users(session, args).await?,
        b"cat" if args.len() <= 3 => categories(session, args.get(2))?,
        b"genpass" if args.len() <= 3 => generate(session, args.get(2))?,
        b"log" if args.len() <= 3 => log::log(session, args.get(2))?,
        b"cat" | b"genpass" | b"log" => return Err(Error::subcommand("acl", args.at(1))),
        b"dryrun" => dry_run(session, args).await?,
        // A change is stored before it takes effect: what is valid and what is stored are always the same.
        b"load" | b"save" => session.outbox.replies.ok(),
        b"help" => session.outbox.replies.help("ACL", &HELP),
        _ => return Err(Error::unknown_subcommand("acl", args.at(1))),
    }
    Ok(())
}

/// All categories, or the commands in one.
fn categories<S: Store>(session: &mut Session<S>, category: Option<&[u8]>) -> Outcome {
    let names: Vec<&str> = match category {
        None => Categories::NAMES.to_vec(),
        Some(name) => {
            let unknown = || Error::bytes([b"ERR Unknown category '", name, b"'"].concat());
            acl::members(Categories::find(name).ok_or_else(unknown)?).collect()
        }
    };
    session.outbox.replies.array(names.len());
    names.iter().for_each(|name| session.outbox.replies.bulk(name.as_bytes()));
    Ok(())
}

/// A random password.
fn generate<S: Store>(session: &mut Session<S>, bits: Option<&[u8]>) -> Outcome {
    let bits = bits.map_or(Ok(256), |bits| parse_i64(bits).ok_or(NOT_AN_INTEGER))?;
    if !(1..=GENERATED_BITS_MAX).contains(&bits) {
        return Err(Error::new(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096",
        ));
    }
    let digits = (bits as usize).div_ceil(4);
    let mut bytes = vec![0; digits.div_ceil(2)];
    secret::system_random(&mut bytes).map_err(|_| Error::new("ERR the system has no random bytes"))?;
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    session.outbox.replies.bulk(&text.as_bytes()[..digits]);
    Ok(())
}

/// Whether a user may run a command.
async fn dry_run<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let name = args.at(2);
    let no_user = || Error::bytes([b"ERR User '", name, b"' not found"].concat());
    let user = session.account()?.users.find(name).ok_or_else(no_user)?;
    let asked = args.with_spans(&args.spans()[3..]);
    let no_command = || Error::bytes([b"ERR Command '", asked.at(0), b"' not found"].concat());
    let command = table::find(asked.at(0)).ok_or_else(no_command)?;
    if acl::has_unknown_subcommand(command, asked) {
        return Err(no_command());
    }
    if !command.takes(asked.len()) {
        return Err(Error::arity(command.name));
    }
    match user.state().rules.check(command, asked, YIELD).await {
        Ok(()) => session.outbox.replies.ok(),
        Err(denied) => session.outbox.replies.bulk(&denied.explain(command, asked)),
    }
    Ok(())
}
