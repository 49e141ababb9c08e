//! The same set in the shape in which Kvrocks keeps it, as rows of the same engine. Kvrocks' published layout has two
//! rows for each member, both with the namespace, the set's key and its version in front: one from member to score, one
//! from score and member to nothing. One more row has the number of members.

use super::load::{disk_bytes, pipelined, settle};
use super::{Plan, SET, member, score, start};
use crate::Result;
use crate::child_server;
use crate::tenants::user::User;
use crate::wire::Client;

/// The namespace of users that have not chosen one.
const NAMESPACE: &[u8] = b"__namespace";
/// A version is 53 bits of microseconds and a counter.
const VERSION: u64 = 0x0006_1d2f_0000_0001;

/// The bytes in front of all of the set's rows.
fn prefix() -> Vec<u8> {
    let mut prefix = vec![NAMESPACE.len() as u8];
    prefix.extend_from_slice(NAMESPACE);
    prefix.extend_from_slice(&(SET.len() as u32).to_be_bytes());
    prefix.extend_from_slice(SET);
    prefix.extend_from_slice(&VERSION.to_be_bytes());
    prefix
}

/// The two rows of a member: key and value of each.
fn rows_of(prefix: &[u8], number: u64) -> [(Vec<u8>, Vec<u8>); 2] {
    // For a score that is not negative the sign's bit is set, so that the bytes have the order of the scores.
    let score = ((score(number) as f64).to_bits() | 1 << 63).to_be_bytes();
    let member = member(number);
    [([prefix, &member].concat(), score.to_vec()), ([prefix, &score, &member].concat(), Vec::new())]
}

/// Bytes of all of it on disk, on a server of its own.
pub(super) fn bytes(plan: &Plan, progress: &mut impl FnMut(&str)) -> Result<u64> {
    let dir = plan.dir.join("large-shape");
    let server = start(plan, &dir)?;
    let user = User::create(&server, "shape", &serde_json::json!({}))?;
    let mut client = user.connect(server.port())?;
    let prefix = prefix();
    let push = |client: &mut Client, number: u64| {
        let [(member, score), (by_score, nothing)] = rows_of(&prefix, number);
        client.push(&[b"MSET", &member, &score, &by_score, &nothing]);
    };
    let members = plan.members;
    pipelined(&mut client, members, push, |done| progress(&format!("the shape of Kvrocks: {done} of {members}")))?;
    progress("waiting until all is merged");
    settle(&server)?;
    let bytes = disk_bytes(&server, &user)?;
    server.stop()?;
    child_server::remove(&dir)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_by_score_have_the_order_of_scores() {
        let prefix = prefix();
        let by_score = |number| rows_of(&prefix, number)[1].0.clone();
        let mut numbers: Vec<u64> = (0..1000).collect();
        numbers.sort_by_key(|&number| by_score(number));
        assert!(numbers.is_sorted_by_key(|&number| score(number)));
        assert_eq!(rows_of(&prefix, 7)[0].0.len(), 1 + 11 + 4 + 5 + 8 + 17);
    }
}
