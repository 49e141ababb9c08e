//! `ACL`: a tenant is a user, and knows of no other.

use weir_command::error::{Error, Outcome};
use weir_command::{Args, lower};

use crate::resp::session::Session;
use crate::store::Store;

pub(in crate::resp) async fn acl<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let subcommand = lower(args.at(1));
    let arity = |name: &str| if args.len() == 2 { Ok(()) } else { Err(Error::arity(&format!("acl|{name}"))) };
    match subcommand.as_slice() {
        b"whoami" => {
            arity("whoami")?;
            let name = session.account()?.name.clone();
            session.outbox.replies.bulk(name.as_bytes());
        }
        b"users" => {
            arity("users")?;
            let name = session.account()?.name.clone();
            session.outbox.replies.array(1);
            session.outbox.replies.bulk(name.as_bytes());
        }
        b"help" => session.outbox.replies.help("ACL", &HELP),
        b"list" | b"getuser" | b"setuser" | b"deluser" | b"save" | b"load" | b"log" => {
            return Err(Error::new("NOPERM tenants and their secrets are altered at the operators' door: weir tenant"));
        }
        _ => return Err(Error::unknown_subcommand("acl", args.at(1))),
    }
    Ok(())
}

const HELP: [&str; 3] = ["USERS: the tenant whose connection this is.", "WHOAMI: its name.", "HELP: this text."];
