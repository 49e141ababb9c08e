//! `CLIENT KILL`: of the tenant's own connections. Those of other tenants do not exist here.

use std::sync::Arc;

use weir_command::error::{Error, Outcome, SYNTAX};
use weir_command::number::parse_i64;
use weir_command::{Args, lower};

use super::end_turn;
use crate::auth::users::{User, Users};
use crate::resp::client::{Client, Clients};
use crate::resp::session::Session;
use crate::store::Store;

/// Which connections are meant. Everything that is given must match.
#[derive(Default)]
struct Filter<'a> {
    id: Option<u64>,
    peer: Option<&'a [u8]>,
    local: Option<&'a [u8]>,
    /// Matches nothing: there are no replicas.
    nobody: bool,
    /// Whether the connection must be subscribed to something, or must not.
    subscribed: Option<bool>,
    /// The user to whom the connection must belong.
    user: Option<Arc<User>>,
    spare_self: bool,
}

impl<'a> Filter<'a> {
    fn parse(args: Args<'a>, users: &Users) -> Outcome<Self> {
        let mut filter = Self { spare_self: true, ..Self::default() };
        let mut words = args.iter_from(2);
        while let Some(word) = words.next() {
            let value = words.next().ok_or(SYNTAX)?;
            let is = |word: &[u8]| value.eq_ignore_ascii_case(word);
            match lower(word).as_slice() {
                b"id" => {
                    let id = parse_i64(value).and_then(|id| u64::try_from(id).ok()).filter(|&id| id > 0);
                    filter.id = Some(id.ok_or(Error::new("ERR client-id should be greater than 0"))?);
                }
                b"addr" => filter.peer = Some(value),
                b"laddr" => filter.local = Some(value),
                b"user" => {
                    let none = || Error::bytes([b"ERR No such user '", value, b"'"].concat());
                    filter.user = Some(users.find(value).ok_or_else(none)?);
                }
                b"type" if is(b"normal") => filter.subscribed = Some(false),
                b"type" if is(b"pubsub") => filter.subscribed = Some(true),
                b"type" if is(b"master") || is(b"replica") || is(b"slave") => filter.nobody = true,
                b"type" => return Err(Error::bytes([b"ERR Unknown client type '", value, b"'"].concat())),
                b"skipme" if is(b"yes") => filter.spare_self = true,
                b"skipme" if is(b"no") => filter.spare_self = false,
                _ => return Err(SYNTAX),
            }
        }
        Ok(filter)
    }

    fn means(&self, client: &Client) -> bool {
        !self.nobody
            && self.subscribed.is_none_or(|subscribed| subscribed == client.is_subscribed())
            && self.user.as_ref().is_none_or(|user| client.is_of(user))
            && self.id.is_none_or(|id| id == client.id)
            && self.peer.is_none_or(|peer| peer == client.peer.to_string().as_bytes())
            && self.local.is_none_or(|local| local == client.local.to_string().as_bytes())
    }
}

pub(super) async fn kill<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let by_address = args.len() == 3;
    let filter = match args.len() {
        3 => Filter { peer: Some(args.at(2)), ..Filter::default() },
        _ => Filter::parse(args, &session.account()?.users)?,
    };
    let mut killed = 0;
    let (server, tenant) = (Arc::clone(&session.outbox.server), session.account()?.tenant);
    for (index, client) in server.clients.of_tenant(tenant).enumerate() {
        end_turn(index).await;
        let is_self = client.id == session.outbox.client.id;
        if !filter.means(&client) || is_self && filter.spare_self {
            continue;
        }
        killed += 1;
        if is_self {
            // The reply is sent first.
            session.outbox.closing = true;
        } else {
            Clients::kill(&client);
        }
    }
    match by_address {
        true if killed == 0 => return Err(Error::new("ERR No such client")),
        true => session.outbox.replies.ok(),
        false => session.outbox.replies.integer(killed),
    }
    Ok(())
}
