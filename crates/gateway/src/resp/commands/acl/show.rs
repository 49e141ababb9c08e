//! `ACL LIST`, `USERS`, `GETUSER`: which users there are, and what each of them may do. Neither passwords nor their
//! SHA-256 are shown. For each password there are 64 digits that tell whether two passwords are the same.

use std::sync::Arc;

use weir_command::acl::SelectorWords;
use weir_command::error::Outcome;
use weir_command::reply::Replies;

use crate::auth::DEFAULT_USER;
use crate::auth::users::{User, Users, hash_text};
use crate::resp::session::Session;
use crate::store::Store;

/// The words `on` and `off` and their kin, and what is shown of the passwords.
fn flags_and_passwords(users: &Users, user: &User) -> (Vec<&'static str>, Vec<String>) {
    let state = user.state();
    let mut flags: Vec<&str> = state.rules.flags().collect();
    if user.name() != DEFAULT_USER {
        return (flags, state.shown_passwords());
    }
    // This user is the tenant itself.
    match users.shown_own_secret() {
        Some(hash) => (flags, vec![hash_text(&hash)]),
        None => {
            flags.push("nopass");
            (flags, Vec::new())
        }
    }
}

pub(super) fn users<S: Store>(session: &mut Session<S>) -> Outcome {
    let all = session.account()?.users.all();
    session.outbox.replies.array(all.len());
    all.iter().for_each(|user| session.outbox.replies.bulk(user.name()));
    Ok(())
}

pub(super) fn list<S: Store>(session: &mut Session<S>) -> Outcome {
    let account = Arc::clone(session.account()?);
    let all = account.users.all();
    session.outbox.replies.array(all.len());
    for user in &all {
        let (flags, passwords) = flags_and_passwords(&account.users, user);
        let rules = &user.state().rules;
        let mut words = vec![b"user".to_vec(), user.name().to_vec()];
        words.extend(flags.iter().map(|flag| flag.as_bytes().to_vec()));
        words.extend(passwords.iter().map(|hash| format!("#{hash}").into_bytes()));
        words.extend(rules.told());
        session.outbox.replies.bulk(&words.join(&b' '));
    }
    Ok(())
}

pub(super) fn get_user<S: Store>(session: &mut Session<S>, name: &[u8]) -> Outcome {
    let account = Arc::clone(session.account()?);
    let replies = &mut session.outbox.replies;
    let Some(user) = account.users.find(name) else {
        replies.null();
        return Ok(());
    };
    let (flags, passwords) = flags_and_passwords(&account.users, &user);
    let state = user.state();
    let mut selectors = state.rules.selector_words();
    replies.map(6);
    replies.bulk(b"flags");
    replies.set(flags.len());
    flags.iter().for_each(|flag| replies.bulk(flag.as_bytes()));
    replies.bulk(b"passwords");
    replies.array(passwords.len());
    passwords.iter().for_each(|hash| replies.bulk(hash.as_bytes()));
    if let Some(root) = selectors.next() {
        tell_selector(replies, &root);
    }
    replies.bulk(b"selectors");
    replies.array(selectors.len());
    for selector in selectors {
        replies.map(3);
        tell_selector(replies, &selector);
    }
    Ok(())
}

fn tell_selector(replies: &mut Replies, selector: &SelectorWords) {
    for (name, words) in [("commands", &selector.commands), ("keys", &selector.keys), ("channels", &selector.channels)]
    {
        replies.bulk(name.as_bytes());
        replies.bulk(words);
    }
}
