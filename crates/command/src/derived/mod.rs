//! Events that follow from what a command has written: which of its rows were there before, what has become of them,
//! and the [rule] of the command.

mod rule;

use weir_model::parts::is_part;
use weir_model::{Change, KEY_BYTES_MAX, StoredKey};

use self::rule::{Event, Rule, misses, rule};
use crate::args::Args;
use crate::context::Context;
use crate::error::Outcome;
use crate::events::Classes;
use crate::table::{Command, Id};

/// What a command has left at a row's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// The command has not written to it.
    Untouched,
    Something,
    Nothing,
}

/// One row of a command, before and after it.
struct Fate {
    row: StoredKey,
    existed: bool,
    left: Left,
    /// The index of the same row's first mention, if the command names the row more than once.
    first: Option<usize>,
}

/// The rows of a command, as they were before it. Empty if the command only reads.
pub(crate) struct Fates(Vec<Fate>);

const DELETED: Event = (Classes::GENERIC, "del");
const MISSED: Event = (Classes::KEY_MISS, "keymiss");

impl Fates {
    /// Looks at `rows`, the rows of `command`, before it runs. For commands that write whatever was there before, this
    /// look also finds rows that have expired.
    ///
    /// # Errors
    /// The rows cannot be read.
    pub(crate) async fn look(
        cx: &mut Context<'_>,
        command: &Command,
        args: Args<'_>,
        rows: Vec<StoredKey>,
    ) -> Outcome<Self> {
        if command.id == Id::XRead && cx.wants().has(Classes::KEY_MISS) {
            // `XREAD` looks whether all keys are streams before it reads any of them.
            for row in &rows {
                if !cx.exists(row[0], &row[1..]).await? {
                    cx.tell_of(row[0], &row[1..], MISSED);
                }
            }
        }
        if !cx.is_locked() {
            if matches!(command.id, Id::Object | Id::Memory) {
                cx.miss_nothing();
            }
            return Ok(Self(Vec::new()));
        }
        if command.follows {
            // Nobody knows yet which keys the command will look for.
            cx.tell_misses();
        }
        let mut fates: Vec<Fate> = Vec::with_capacity(rows.len());
        let mut known = std::collections::BTreeMap::<Vec<u8>, usize>::new();
        for (place, row) in rows.into_iter().enumerate() {
            let first = known.get(&row[..]).copied();
            let existed = match first {
                Some(first) => fates[first].existed,
                // The code that wants a longer key refuses it.
                None if row.len() > KEY_BYTES_MAX => false,
                None => cx.exists(row[0], &row[1..]).await?,
            };
            if !existed && misses(command, args, place) {
                cx.tell_of(row[0], &row[1..], MISSED);
            }
            known.entry(row.to_vec()).or_insert(place);
            fates.push(Fate { row, existed, left: Left::Untouched, first });
        }
        Ok(Self(fates))
    }

    /// Tells what has become of the rows of `command`, which has ended well.
    pub(crate) fn tell(mut self, cx: &mut Context<'_>, command: &Command, args: Args<'_>) {
        if self.0.is_empty() {
            return;
        }
        self.see(cx);
        let rule = rule(command, args);
        if rule != Rule::Silent {
            for fate in self.0.iter().filter(|fate| fate.first.is_none() && fate.left != Left::Untouched) {
                cx.tell_of(fate.row[0], &fate.row[1..], (Classes::CHANGED, ""));
            }
        }
        self.tell_by(rule, cx, command, args);
        for fate in self.0.iter().filter(|fate| fate.first.is_none() && fate.left == Left::Something) {
            let is_put_anew = matches!(rule, Rule::Renamed | Rule::Moved | Rule::Copied);
            if !fate.existed || is_put_anew {
                // The row was made before anything was done to it, and before the row that it was made from went away.
                cx.tell_new(fate.row[0], &fate.row[1..], is_put_anew);
            }
        }
    }

    /// Finds out what the command has left of its rows.
    fn see(&mut self, cx: &Context<'_>) {
        let mut has_parts = false;
        let places: std::collections::BTreeMap<Vec<u8>, usize> =
            self.0.iter().enumerate().rev().map(|(place, fate)| (fate.row.to_vec(), place)).collect();
        for change in cx.written().iter() {
            has_parts |= is_part(change.key());
            if let Some(&place) = places.get(change.key()) {
                self.0[place].left =
                    if matches!(change, Change::Delete { .. }) { Left::Nothing } else { Left::Something };
            }
        }
        // A part may be written without its head.
        let has_one = self.0.len() == 1;
        if let [fate, ..] = &mut self.0[..]
            && has_one
            && has_parts
            && fate.left == Left::Untouched
        {
            fate.left = Left::Something;
        }
        for place in 0..self.0.len() {
            if let Some(first) = self.0[place].first {
                self.0[place].left = self.0[first].left;
            }
        }
    }

    fn tell_by(&self, rule: Rule, cx: &mut Context<'_>, command: &Command, args: Args<'_>) {
        let mut tell = |fate: &Fate, event: Event| cx.tell_of(fate.row[0], &fate.row[1..], event);
        let is_gone = |fate: &&Fate| fate.left == Left::Nothing && fate.existed && fate.first.is_none();
        match rule {
            Rule::Said | Rule::Silent => {}
            Rule::Gone => self.0.iter().filter(is_gone).for_each(|fate| tell(fate, DELETED)),
            Rule::Each(event) | Rule::EachExpiring(event) => {
                // A key that one of these commands sets twice is told twice; with other commands, each key is told
                // once.
                let repeats = matches!(command.id, Id::MSet | Id::MSetNx);
                for fate in self.0.iter().filter(|fate| repeats || fate.first.is_none()) {
                    if fate.left == Left::Something {
                        tell(fate, event);
                        if matches!(rule, Rule::EachExpiring(_)) {
                            tell(fate, (Classes::GENERIC, "expire"));
                        }
                    } else if is_gone(&fate) {
                        tell(fate, DELETED);
                    }
                }
            }
            Rule::Taken(event) => {
                let own = self.0.iter().filter(|fate| fate.first.is_none());
                own.filter(|fate| fate.left != Left::Untouched).for_each(|fate| tell(fate, event));
                self.0.iter().filter(is_gone).for_each(|fate| tell(fate, DELETED));
            }
            Rule::Stored(event) => {
                let stored = command.stored_key(args);
                let names_it = command.stores || command.stores_from.is_some();
                let taker = match names_it {
                    true => self.0.iter().rev().find(|fate| Some(&fate.row[1..]) == stored),
                    false => self.0.first(),
                };
                match taker {
                    Some(fate) if fate.left == Left::Something => tell(fate, event),
                    Some(fate) if fate.left == Left::Nothing && fate.existed => tell(fate, DELETED),
                    _ => {}
                }
            }
            Rule::Renamed | Rule::Moved => {
                let names = if rule == Rule::Renamed { ["rename_from", "rename_to"] } else { ["move_from", "move_to"] };
                if let [from, to, ..] = &self.0[..]
                    && to.left == Left::Something
                {
                    tell(from, (Classes::GENERIC, names[0]));
                    tell(to, (Classes::GENERIC, names[1]));
                }
            }
            Rule::Copied => {
                let copies = self.0.iter().skip(1).filter(|fate| fate.left == Left::Something);
                copies.take(1).for_each(|fate| tell(fate, (Classes::GENERIC, "copy_to")));
            }
            Rule::HandedOver { taken, put, put_first } => {
                let [from, to, ..] = &self.0[..] else { return };
                if put_first && to.left == Left::Something {
                    tell(to, put);
                }
                if from.left != Left::Untouched {
                    tell(from, taken);
                    if is_gone(&from) {
                        tell(from, DELETED);
                    }
                }
                if !put_first && to.left == Left::Something && to.first.is_none() {
                    tell(to, put);
                }
            }
        }
    }
}
