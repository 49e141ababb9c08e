//! A connection's line in `CLIENT LIST`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Client, Phase};
use crate::pubsub::Counts;
use crate::stats;
use crate::tracking::Tracks;

impl Client {
    /// What the connection tracks; `None` if it does not track.
    fn tracks(&self) -> Option<Tracks> {
        let account = Arc::clone(&self.owner.lock().as_ref()?.account);
        account.tracking.tracks(self.id)
    }

    /// The flags of `CLIENT LIST`, in the order of Redis. `is_queueing` says whether commands wait for `EXEC`.
    fn flags(&self, is_queueing: bool, tracks: Option<Tracks>) -> String {
        let flags = [
            ('O', self.is_monitor.load(Ordering::Relaxed)),
            ('P', self.is_subscribed()),
            ('x', is_queueing),
            ('b', matches!(self.phase(), Phase::Blocked | Phase::Paused)),
            ('t', tracks.is_some()),
            ('R', tracks.is_some_and(|tracks| tracks.is_broken)),
            ('B', tracks.is_some_and(|tracks| tracks.broadcast)),
        ];
        let set: String = flags.into_iter().filter_map(|(flag, is_set)| is_set.then_some(flag)).collect();
        if set.is_empty() { "N".to_owned() } else { set }
    }

    /// A line of `CLIENT LIST` at `second`, with the fields of Redis that mean something here.
    pub(in crate::resp) fn line(&self, second: u64) -> String {
        let names = self.names.lock().clone();
        let Counts { channels, patterns, shard_channels } = self.subscriptions();
        let (command, queued) = self.last_said();
        let tracks = self.tracks();
        let flags = self.flags(queued.is_some(), tracks);
        // The connection is read from, and also written to while its client does not take what it is sent.
        let events = if self.phase() == Phase::Replying { "rw" } else { "r" };
        let command = command.map_or_else(|| "NULL".to_owned(), stats::counted_name);
        // File descriptors are not shown, and memory is counted for a tenant, not for a connection.
        format!(
            "id={} addr={} laddr={} fd=-1 name={} age={} idle={} flags={flags} db={} sub={channels} psub={patterns} \
             ssub={shard_channels} multi={} qbuf={} qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 \
             tot-mem=0 events={events} cmd={command} user={} redir={} resp={} lib-name={} lib-ver={}\n",
            self.id,
            self.peer,
            self.local,
            String::from_utf8_lossy(&names.name),
            second.saturating_sub(self.since),
            second.saturating_sub(self.last()),
            self.database.load(Ordering::Relaxed),
            queued.map_or(-1, |queued| queued as i64),
            self.sent_bytes(),
            String::from_utf8_lossy(&self.user_name()),
            // As in CLIENT GETREDIR: 0 = the connection is told itself, -1 = it does not track.
            tracks.map_or(-1, |tracks| tracks.redirect.unwrap_or(0) as i64),
            if self.resp3.load(Ordering::Relaxed) { 3 } else { 2 },
            String::from_utf8_lossy(&names.lib_name),
            String::from_utf8_lossy(&names.lib_version),
        )
    }

    /// The line that is shown to a tenant to which the connection does not belong: it says only where the connection
    /// comes from (S5). It has the same fields, because tools expect all of them.
    pub(in crate::resp) fn line_for_others(&self) -> String {
        format!(
            "id={} addr={} laddr={} fd=-1 name= age=0 idle=0 flags=N db=0 sub=0 psub=0 ssub=0 multi=-1 qbuf=0 \
             qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=r cmd=auth user= \
             redir=-1 resp=2 lib-name= lib-ver=",
            self.id, self.peer, self.local,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::client::Clients;

    #[test]
    fn whether_a_connection_is_read_or_written_is_told_by_its_events() {
        let address = "127.0.0.1:1".parse().expect("an address");
        let client = Clients::default().admit(address, address, 0, 1).expect("room");
        for (phase, flags, events) in [
            (Phase::Idle, "N", "r"),
            (Phase::Receiving, "N", "r"),
            (Phase::Serving, "N", "r"),
            (Phase::Replying, "N", "rw"),
            (Phase::Blocked, "b", "r"),
            (Phase::Paused, "b", "r"),
        ] {
            client.enter(phase, 0);
            let line = client.line(0);
            assert!(line.contains(&format!(" flags={flags} ")), "{phase:?}: {line}");
            assert!(line.contains(&format!(" events={events} ")), "{phase:?}: {line}");
        }
        client.is_monitor.store(true, Ordering::Relaxed);
        client.queues(Some(0));
        assert!(client.line(0).contains(" flags=Oxb "), "{}", client.line(0));
    }
}
