//! The part of a history that tells of rows, group by group: only this part can be checked.

use std::collections::BTreeMap;

use weir_command::table::{self, Command, Id};
use weir_command::{Args, Request};

use super::linear::Operation;

/// Clients that ask about the same keys.
pub const CLIENTS_OF_GROUP: usize = 5;

/// What was asked and answered about the rows of each group, by the group's number.
pub type Groups = BTreeMap<usize, Vec<Operation>>;

/// What `history` tells of rows. A group is there if its clients asked anything.
pub fn groups(history: Vec<Operation>) -> Groups {
    let mut groups = Groups::new();
    for operation in history {
        groups.entry(operation.client / CLIENTS_OF_GROUP).or_default().extend(parts(operation));
    }
    groups
}

/// Whether `args` of `command` tell of rows at one moment. A command that reads several rows looks at one after the
/// other, and may tell of each at another moment; a command that goes through all keys tells of no row in particular.
pub fn tells_of_rows(command: &Command, args: Args<'_>) -> bool {
    // An answer by chance tells of no moment.
    let is_by_chance = matches!(command.id, Id::HRandField | Id::SRandMember | Id::ZRandMember);
    command.writes() || command.keys_in(args).count() == 1 && !is_by_chance
}

/// What `operation` tells of rows: all of it, each key of an `MGET` as an operation of its own, or nothing.
fn parts(operation: Operation) -> Vec<Operation> {
    let Operation { client, request, from, to, answer, .. } = &operation;
    let args = request.args();
    let command = table::find(args.at(0)).expect("a command");
    if tells_of_rows(command, args) {
        return vec![operation];
    }
    if command.id != Id::MGet {
        return Vec::new();
    }
    let values = bulks(answer);
    if values.len() + 1 != args.len() {
        // An error, or too few elements: a check of the whole operation refuses it.
        return vec![operation];
    }
    let get = |(key, value): (&[u8], &[u8])| Operation {
        // To `MGET` a row that is no string is nil.
        request: Request::new(request.database, request.now_ms, [b"MGET", key]),
        answer: [b"*1\r\n", value].concat(),
        client: *client,
        from: *from,
        to: *to,
        split: true,
    };
    args.iter_from(1).zip(values).map(get).collect()
}

/// The elements of an array of strings, each with its own length in front.
fn bulks(array: &[u8]) -> Vec<&[u8]> {
    let line_end = |from: usize| from + array[from..].windows(2).position(|two| two == b"\r\n").expect("a line") + 2;
    let (mut at, mut bulks) = (line_end(0), Vec::new());
    while at < array.len() {
        let body = line_end(at);
        let len = std::str::from_utf8(&array[at + 1..body - 2]).ok().and_then(|len| len.parse::<usize>().ok());
        // A nil has the length -1, and no bytes.
        let end = len.map_or(body, |len| body + len + 2);
        bulks.push(&array[at..end]);
        at = end;
    }
    bulks
}
