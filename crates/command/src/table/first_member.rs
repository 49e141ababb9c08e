//! The member of a row that a command looks for first, which can be made ready before the command runs.

use super::{Command, Id};

impl Command {
    /// The position of the first member among the `words` words of a request; `None` if the request names no member, or
    /// if nobody gains by knowing.
    pub fn first_member(&self, words: usize) -> Option<usize> {
        let place = match self.id {
            Id::HGet | Id::HMGet | Id::HExists | Id::HStrLen => 2,
            Id::HSet | Id::HMSet | Id::HSetNx | Id::HDel | Id::HIncrBy | Id::HIncrByFloat => 2,
            Id::SAdd | Id::SRem | Id::SIsMember | Id::SMIsMember => 2,
            Id::ZScore | Id::ZMScore | Id::ZRem | Id::ZRank | Id::ZRevRank => 2,
            Id::ZIncrBy => 3,
            // Options and a score come before it.
            Id::ZAdd => words.checked_sub(1)?,
            _ => return None,
        };
        (place < words).then_some(place)
    }
}
