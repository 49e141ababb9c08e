//! `ACL SETUSER` and `DELUSER`: a change is made as a whole or not at all. It is durable before it takes effect, and
//! then applies at once to open connections.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_command::Args;
use weir_command::acl::{Hash, PasswordRule, RuleError, Rules, merged};
use weir_command::error::{Error, Outcome};
use weir_node::{USERS_BYTES_MAX, USERS_MAX};
use zeroize::Zeroizing;

use crate::auth::slow::SlowHash;
use crate::auth::users::{PATTERNS_MAX, User, UserState};
use crate::auth::{DEFAULT_USER, secret};
use crate::pubsub::Kind;
use crate::resp::client::Clients;
use crate::resp::commands::end_turn;
use crate::resp::outbox::YIELD;
use crate::resp::session::Session;
use crate::store::Store;

/// How many bytes all rules of one change may have.
const RULES_BYTES_MAX: usize = 64 << 10;

/// How many passwords one change may name, because each takes some time to be hashed.
const PASSWORDS_NAMED_MAX: usize = 32;

const DEFAULT_IS_FIXED: Error = Error::new(
    "ERR the user 'default' is the tenant itself: it is on, it may do everything, and its secret is altered with weir \
     tenant. Use other users",
);

/// What a rule does to a user's passwords. A password is given by its hash.
enum Password {
    Add(Zeroizing<Hash>),
    Remove(Zeroizing<Hash>),
    Clear,
}

/// The rules after a change.
struct Wanted {
    rules: Rules,
    /// The rules about passwords in their order, each with its position.
    passwords: Vec<(usize, Password)>,
}

fn refused(rule: &[u8], why: RuleError) -> Error {
    // A word that may be a password is not repeated in the error (S4).
    let shown = if rule.starts_with(b">") || rule.starts_with(b"<") { &rule[..1] } else { rule };
    Error::bytes([b"ERR Error in ACL SETUSER modifier '", shown, b"': ", why.to_string().as_bytes()].concat())
}

impl Wanted {
    fn parse(mut rules: Rules, gives_all_channels: bool, words: &[Zeroizing<Vec<u8>>]) -> Outcome<Self> {
        let mut passwords = Vec::new();
        for (place, word) in words.iter().enumerate() {
            let applied = rules.apply_with_default(word, gives_all_channels);
            let password = match applied.map_err(|why| refused(word, why))? {
                None => continue,
                Some(PasswordRule::Clear) => {
                    passwords.clear();
                    Password::Clear
                }
                Some(PasswordRule::Add(password)) => Password::Add(secret::sha256(password)),
                Some(PasswordRule::AddHash(hash)) => Password::Add(Zeroizing::new(hash)),
                Some(PasswordRule::Remove(password)) => Password::Remove(secret::sha256(password)),
                Some(PasswordRule::RemoveHash(hash)) => Password::Remove(Zeroizing::new(hash)),
            };
            if passwords.len() >= PASSWORDS_NAMED_MAX {
                return Err(Error::new("ERR ACL SETUSER takes at most 32 passwords at a time"));
            }
            passwords.push((place, password));
        }
        Ok(Self { rules, passwords })
    }
}

pub(super) async fn set_user<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let name = args.at(2);
    if name.iter().any(|byte| byte.is_ascii_whitespace() || *byte == 0) {
        return Err(Error::new("ERR Usernames can't contain spaces or null characters"));
    }
    if name.len() + args.iter_from(3).map(<[u8]>::len).sum::<usize>() > RULES_BYTES_MAX {
        return Err(Error::new("ERR ACL SETUSER takes at most 65536 bytes of rules at a time"));
    }
    let words = merged(args.iter_from(3)).map_err(|begin| {
        Error::bytes([b"ERR Unmatched parenthesis in acl selector starting at '", begin, b"'."].concat())
    })?;
    let words: Vec<_> = words.into_iter().map(Zeroizing::new).collect();
    if name == DEFAULT_USER {
        return keep_default(session, &words);
    }
    let account = Arc::clone(session.account()?);
    let change = account.users.change().await;
    // Read while this task has the turn, so that the change is based on the last one.
    let before = account.users.find(name).map(|user| (Arc::clone(&user), user.state()));
    let gives_all_channels = account.users.gives_all_channels.load(Ordering::Relaxed);
    let (rules, secret) = before.as_ref().map_or_else(
        || (Rules::new(gives_all_channels), None),
        |(_, state)| (state.rules.clone(), state.secret.clone()),
    );
    let Wanted { rules, passwords } = Wanted::parse(rules, gives_all_channels, &words)?;
    let secret = match passwords.is_empty() {
        true => secret,
        false => {
            let server = Arc::clone(&session.outbox.server);
            let slow = server.doorman.slow_hash().ok_or(Error::new("ERR users have no passwords here"))?;
            hash(slow, secret, passwords, &words).await?
        }
    };
    if change.patterns_of_others(name) + rules.patterns() > PATTERNS_MAX {
        return Err(Error::new(
            "ERR the tenant's users have too many patterns of keys and channels: 2048 are possible",
        ));
    }
    change.put(name, rules, secret).await.map_err(cannot_store)?;
    if let Some((user, before)) = before {
        cut_listeners(session, &user, &before).await?;
    }
    session.outbox.replies.ok();
    Ok(())
}

fn cannot_store(error: weir_io::Error) -> Error {
    match error.kind() {
        weir_io::ErrorKind::Invalid => Error::bytes(
            format!(
                "ERR a tenant has at most {USERS_MAX} users, whose names and rules take at most {USERS_BYTES_MAX} bytes: \
                 delete some"
            )
            .into_bytes(),
        ),
        _ => error.into(),
    }
}

/// Checks rules for the user that stands for the tenant itself. Rules that change nothing are accepted.
fn keep_default<S: Store>(session: &mut Session<S>, words: &[Zeroizing<Vec<u8>>]) -> Outcome {
    let users = &session.account()?.users;
    let gives_all_channels = users.gives_all_channels.load(Ordering::Relaxed);
    let Wanted { rules, passwords } = Wanted::parse(Rules::full(), gives_all_channels, words)?;
    let is_open = users.shown_own_secret().is_none();
    let has_password = passwords.iter().any(|(_, password)| !matches!(password, Password::Clear));
    let needs_none = passwords.is_empty() || rules.needs_no_password && is_open;
    if !rules.is_on || !rules.are_full() || has_password || !needs_none {
        return Err(DEFAULT_IS_FIXED);
    }
    session.outbox.replies.ok();
    Ok(())
}

/// What is to be stored of a user's passwords after these changes.
async fn hash(
    slow: &Arc<SlowHash>,
    secret: Option<Vec<u8>>,
    passwords: Vec<(usize, Password)>,
    words: &[Zeroizing<Vec<u8>>],
) -> Outcome<Option<Vec<u8>>> {
    let mut salt = [0; 16];
    secret::system_random(&mut salt).map_err(|_| Error::new("ERR the system has no random bytes"))?;
    let hashed = slow.run(move || {
        let empty = || secret::no_passwords(&mut |buffer| buffer.copy_from_slice(&salt));
        let mut stored = secret;
        for (place, password) in passwords {
            let missing = (place, RuleError::NoSuchPassword);
            match password {
                Password::Clear => stored = None,
                Password::Add(hash) => {
                    let more = secret::with_hash(stored.unwrap_or_else(empty), &hash);
                    stored = Some(more.map_err(|_| (place, RuleError::ManyPasswords))?);
                }
                Password::Remove(hash) => {
                    let known = stored.ok_or(missing)?;
                    let less = secret::without_hash(&known, &hash).map_err(|_| missing)?;
                    stored = Some(less.ok_or(missing)?);
                }
            }
        }
        Ok(stored)
    });
    let hashed: Result<Option<Vec<u8>>, (usize, RuleError)> =
        hashed.await.map_err(|_| Error::new("ERR too many logins at the same time, try again"))?;
    hashed.map_err(|(place, why)| refused(&words[place], why))
}

/// Cuts the connections of `user` that listen to something that the user may no longer listen to.
async fn cut_listeners<S: Store>(session: &mut Session<S>, user: &Arc<User>, before: &UserState) -> Outcome {
    let after = user.state();
    if after.rules.keep_channels_of(&before.rules) {
        return Ok(());
    }
    let (account, server) = (Arc::clone(session.account()?), Arc::clone(&session.outbox.server));
    let mut clients = Vec::new();
    for (index, client) in server.clients.of_tenant(account.tenant).enumerate() {
        end_turn(index).await;
        if client.is_of(user) && client.is_subscribed() {
            clients.push(client);
        }
    }
    let (ids, mut gone) = (clients.iter().map(|client| client.id).collect(), BTreeSet::new());
    for (kind, name, listeners) in account.pubsub.heard_by(&ids, YIELD).await {
        if !after.rules.keep_listening(&name, kind == Kind::Pattern, YIELD).await {
            gone.extend(listeners);
        }
    }
    clients.iter().filter(|client| gone.contains(&client.id)).for_each(|client| cut(session, client));
    Ok(())
}

/// Cuts a connection. The session's own connection is cut when it has been answered.
fn cut<S: Store>(session: &mut Session<S>, client: &crate::resp::client::Client) {
    if client.id == session.outbox.client.id {
        session.outbox.closing = true;
    } else {
        Clients::kill(client);
    }
}

pub(super) async fn delete_users<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let names: Vec<&[u8]> = args.iter_from(2).collect();
    if names.contains(&DEFAULT_USER) {
        return Err(Error::new("ERR The 'default' user cannot be removed"));
    }
    if names.len() > USERS_MAX {
        return Err(Error::new("ERR ACL DELUSER takes at most 256 users at a time"));
    }
    let (account, server) = (Arc::clone(session.account()?), Arc::clone(&session.outbox.server));
    let deleted = account.users.change().await.delete(&names).await?;
    for (index, client) in server.clients.of_tenant(account.tenant).enumerate() {
        end_turn(index).await;
        if deleted.iter().any(|user| client.is_of(user)) {
            cut(session, &client);
        }
    }
    session.outbox.replies.integer(deleted.len() as i64);
    Ok(())
}
