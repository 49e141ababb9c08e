//! The same set in the shape in which Kvrocks keeps it, as rows of the same engine. Kvrocks' published layout has two
//! rows for each member, both with the namespace, the set's key and its version in front: one from member to score, one
//! from score and member to nothing. One more row has the number of members.

mod requests;

use serde::Serialize;

use super::load::{disk_bytes, pipelined, settle};
use super::{Plan, SET, member, score, start};
use crate::Result;
use crate::child_server;
use crate::tenants::user::User;
use crate::wire::Client;

pub use self::requests::{Asked, Request, ranks};

/// The namespace of users that have not chosen one.
const NAMESPACE: &[u8] = b"__namespace";
/// A version is 53 bits of microseconds and a counter.
const VERSION: u64 = 0x0006_1d2f_0000_0001;
/// The tenant that has the rows.
const TENANT: &str = "shape";

/// What was found in that shape.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Shape {
    /// Bytes of all rows on disk, once nothing is left to flush or to merge.
    pub bytes: u64,
    /// Requests, round by round.
    pub asked: Vec<Asked>,
}

/// The bytes in front of all of the set's rows.
fn prefix() -> Vec<u8> {
    let mut prefix = vec![NAMESPACE.len() as u8];
    prefix.extend_from_slice(NAMESPACE);
    prefix.extend_from_slice(&(SET.len() as u32).to_be_bytes());
    prefix.extend_from_slice(SET);
    prefix.extend_from_slice(&VERSION.to_be_bytes());
    prefix
}

/// A score in keys and values. It is not negative: so its sign's bit is set, for the bytes to have the order of the
/// scores.
fn score_bytes(score: u64) -> [u8; 8] {
    ((score as f64).to_bits() | 1 << 63).to_be_bytes()
}

/// The two rows of a member: key and value of each.
fn rows_of(prefix: &[u8], number: u64) -> [(Vec<u8>, Vec<u8>); 2] {
    let (score, member) = (score_bytes(score(number)), member(number));
    [([prefix, &member].concat(), score.to_vec()), ([prefix, &score, &member].concat(), Vec::new())]
}

/// Loads all of it on a server of its own, and asks for parts of it.
pub(super) fn measure(plan: &Plan, progress: &mut impl FnMut(&str)) -> Result<Shape> {
    let dir = plan.dir.join("large-shape");
    let server = start(plan, &dir)?;
    let user = User::create(&server, TENANT, &serde_json::json!({}))?;
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
    let mut asked = requests::over_loopback(plan, client, progress)?;
    server.stop()?;
    asked.extend(requests::in_process(plan, &dir, progress)?);
    child_server::remove(&dir)?;
    Ok(Shape { bytes, asked })
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
