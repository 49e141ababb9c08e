//! The way to the disk for one owner: partition gate, then node gate, then the books.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use weir_io::{BoxFuture, Class, Owner, PAGE};

use crate::gate::{Gate, Grant, Request};
use crate::ledger::{Account, Ledger, Wait};
use crate::limits::Direction;
use crate::order::Rank;
use crate::partition::PartitionGate;
use crate::waits;

/// The gates and the account that an owner's I/O passes, in this order.
pub(crate) struct Door {
    owner: Owner,
    /// `None` for the node's own I/O.
    partition: Option<Arc<PartitionGate>>,
    node: Arc<Gate>,
    account: Arc<Account>,
    /// Everything but flushes passes as foreground.
    is_urgent: bool,
}

/// Both grants of one I/O. To be dropped when it is over.
#[must_use = "hold it until the I/O is over"]
pub(crate) struct Held {
    partition: Grant,
    node: Grant,
}

impl Held {
    /// True if this may be dropped before the I/O is over.
    pub(crate) fn is_free(&self) -> bool {
        self.partition.is_free() && self.node.is_free()
    }
}

/// The outcome of asking to pass.
pub(crate) enum Pass {
    Ready(Held),
    Waiting(BoxFuture<Held>),
}

/// The answer of the partition's own gate.
enum Own {
    Paid(Grant),
    /// There is no such gate, or the node lends what the partition does not have.
    Free,
    Waiting(Request),
}

impl Door {
    pub(crate) fn new(
        owner: Owner,
        partition: Option<Arc<PartitionGate>>,
        node: Arc<Gate>,
        account: Arc<Account>,
    ) -> Self {
        Self { owner, partition, node, account, is_urgent: false }
    }

    /// The same gates, which everything but flushes passes as foreground.
    pub(crate) fn urgent(self) -> Self {
        Self { is_urgent: true, ..self }
    }

    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    /// Whether anything ever waits here.
    pub(crate) fn may_wait(&self) -> bool {
        !self.node.is_unlimited() || self.partition.as_ref().is_some_and(|gate| !gate.background().is_unlimited())
    }

    fn rank(&self, class: Class) -> Rank {
        match &self.partition {
            _ if self.is_urgent && class != Class::Flush => Rank::Foreground,
            Some(gate) => gate.rank(class),
            None => Rank::of(class),
        }
    }

    /// The largest piece in which I/O of `class` may be issued, in bytes. What a client asked for is never cut: it goes
    /// into debt. A flush is cut even where it passes as foreground. Uncut, it would leave a debt for which clients
    /// wait; cut, a read of its partition waits only behind the two pieces that are asked for at a time.
    pub(crate) fn piece_bytes(&self, class: Class, direction: Direction) -> u64 {
        if class.is_foreground() {
            return u64::MAX;
        }
        let rank = self.rank(class);
        let own = self.partition.as_ref().map_or(u64::MAX, |partition| {
            let gate = partition.gate(rank);
            // A piece larger than the partition's burst would wait for a full bucket and leave a debt.
            let burst = (gate.burst_bytes(direction) / PAGE as u64 * PAGE as u64).max(PAGE as u64);
            if rank == Rank::Foreground { burst.min(gate.grant_bytes(direction)) } else { burst }
        });
        self.node.grant_bytes(direction).min(own)
    }

    /// Asks both gates for one operation of `bytes`, the node's gate only once the partition's gate has granted
    /// (FX-16): no partition keeps a token of the node while it waits for its own. `buffered` = the operation goes into
    /// the page cache, and the device gets this many operations because of it.
    pub(crate) fn pass(
        self: &Arc<Self>,
        class: Class,
        direction: Direction,
        bytes: u64,
        buffered: Option<u64>,
    ) -> Pass {
        let rank = self.rank(class);
        match (self.pass_as(rank, class, direction, bytes, buffered), &self.partition) {
            (Pass::Waiting(waiting), Some(partition)) if rank.is_background() && may_be_promoted(class) => {
                let (door, partition) = (Arc::clone(self), Arc::clone(partition));
                Pass::Waiting(Box::pin(door.or_promoted(partition, waiting, class, direction, bytes)))
            }
            (pass, _) => pass,
        }
    }

    /// Waits on. If a client begins to wait for the partition meanwhile, gives up the places in the queues of
    /// background and asks again: behind strict foreground they might never be reached.
    async fn or_promoted(
        self: Arc<Self>,
        partition: Arc<PartitionGate>,
        mut waiting: BoxFuture<Held>,
        class: Class,
        direction: Direction,
        bytes: u64,
    ) -> Held {
        let first = {
            let mut awaited = pin!(partition.awaited());
            poll_fn(|cx| match waiting.as_mut().poll(cx) {
                Poll::Ready(held) => Poll::Ready(Some(held)),
                Poll::Pending => awaited.as_mut().poll(cx).map(|()| None),
            })
            .await
        };
        if let Some(held) = first {
            return held;
        }
        drop(waiting);
        match self.pass(class, direction, bytes, None) {
            Pass::Ready(held) => held,
            Pass::Waiting(waiting) => waiting.await,
        }
    }

    fn pass_as(
        self: &Arc<Self>,
        rank: Rank,
        class: Class,
        direction: Direction,
        bytes: u64,
        buffered: Option<u64>,
    ) -> Pass {
        let for_client = class.is_foreground();
        let toll = Toll { rank, direction, bytes, buffered: buffered.filter(|_| for_client) };
        let (partition, paid) = match self.ask_partition(toll) {
            Own::Paid(grant) => (grant, true),
            Own::Free => (Grant::FREE, false),
            Own::Waiting(own) => {
                let door = Arc::clone(self);
                let own = self.wait(own, Wait::Partition, class);
                return Pass::Waiting(Box::pin(async move {
                    let partition = own.await;
                    let paid = Paid::new(&door, toll);
                    let request = door.ask_node(toll);
                    let node = door.wait(request, Wait::Node, class).await;
                    paid.keep();
                    Held { partition, node }
                }));
            }
        };
        match self.ask_node(toll) {
            Request::Ready(node) => Pass::Ready(Held { partition, node: node.expect("a new request") }),
            waiting => {
                let paid = paid.then(|| Paid::new(self, toll));
                let waiting = self.wait(waiting, Wait::Node, class);
                Pass::Waiting(Box::pin(async move {
                    let node = waiting.await;
                    if let Some(paid) = paid {
                        paid.keep();
                    }
                    Held { partition, node }
                }))
            }
        }
    }

    /// Awaits a grant. Books the time from now on if a client waits for it.
    fn wait(self: &Arc<Self>, request: Request, wait: Wait, class: Class) -> impl Future<Output = Grant> + use<> {
        let counts = class.is_foreground() && matches!(request, Request::Waiting(_));
        let clocked = counts.then(|| (Arc::clone(self), self.node.now()));
        let queued = (counts && wait == Wait::Node && class == Class::Read).then(|| self.account.queue_read());
        async move {
            let grant = request.await;
            drop(queued);
            if let Some((door, began)) = clocked {
                let waited = door.node.now().saturating_sub(began);
                door.account.book_wait(wait, waited);
                waits::book(wait.cause(), waited);
            }
            grant
        }
    }

    fn ask_partition(&self, toll: Toll) -> Own {
        let Toll { rank, direction, bytes, .. } = toll;
        let Some(partition) = &self.partition else { return Own::Free };
        let (gate, buffered) = (partition.gate(rank), toll.buffered_at(partition));
        if rank == Rank::Foreground && partition.borrows() {
            match gate.try_pass(self.owner, rank, direction, bytes, buffered.unwrap_or(1)) {
                Some(grant) => return Own::Paid(grant),
                None if self.node.is_idle(direction) => return Own::Free,
                None => {}
            }
        }
        let request = match buffered {
            Some(ops) => gate.request_buffered(self.owner, direction, bytes, ops),
            None => gate.request(self.owner, rank, direction, bytes),
        };
        match request {
            Request::Ready(grant) => Own::Paid(grant.expect("a new request")),
            waiting => Own::Waiting(waiting),
        }
    }

    fn ask_node(&self, toll: Toll) -> Request {
        match toll.buffered {
            Some(ops) => self.node.request_buffered(self.owner, toll.direction, toll.bytes, ops),
            None => self.node.request(self.owner, toll.rank, toll.direction, toll.bytes),
        }
    }
}

/// An owner's own gate, for what somebody else writes together with data of others. The writer passes the node's gate.
pub struct OwnGate(Arc<Door>);

impl OwnGate {
    /// The gate of `partition`, which comes before the gate of `node`.
    pub fn new(partition: Arc<PartitionGate>, node: Arc<Gate>, ledger: &Ledger) -> Self {
        let owner = partition.owner();
        Self(Arc::new(Door::new(owner, Some(partition), node, ledger.account(owner))))
    }

    /// Asks to pass with `bytes` of a log, which go out together with those of others. `None` if they have passed.
    /// Otherwise they keep their place in the queue until the returned future is dropped, and have passed when it is
    /// done. `buffered` = they go into the page cache.
    ///
    /// The wait is booked to the owner. It is not booked to a request: whoever polls the future need not be the one
    /// that waits.
    pub fn pass(&self, bytes: u64, buffered: bool) -> Option<BoxFuture<()>> {
        let (class, direction) = (Class::Log, Direction::Write);
        let toll = Toll { rank: self.0.rank(class), direction, bytes, buffered: buffered.then_some(0) };
        match self.0.ask_partition(toll) {
            Own::Paid(_) | Own::Free => None,
            Own::Waiting(own) => {
                let (door, began) = (Arc::clone(&self.0), self.0.node.now());
                Some(Box::pin(async move {
                    drop(own.await);
                    door.account.book_wait(Wait::Partition, door.node.now().saturating_sub(began));
                }))
            }
        }
    }
}

/// Whether a client may have to wait for I/O of this class: never for compactions.
const fn may_be_promoted(class: Class) -> bool {
    matches!(class, Class::Flush | Class::Maintenance)
}

/// What one operation costs at a gate.
#[derive(Clone, Copy)]
struct Toll {
    rank: Rank,
    direction: Direction,
    bytes: u64,
    buffered: Option<u64>,
}

impl Toll {
    /// Whether the operation goes before others at the gate of `partition`, and for how many operations. Without that,
    /// each record of the log would wait for a flush that rushes, as that takes all tokens, piece by piece. A RocksDB's
    /// single bucket has no such thing.
    fn buffered_at(self, partition: &PartitionGate) -> Option<u64> {
        self.buffered.filter(|_| !partition.is_one_bucket())
    }
}

/// Tokens of the partition. They are given back if the I/O is dropped while it waits at the node.
struct Paid {
    door: Arc<Door>,
    toll: Toll,
    kept: bool,
}

impl Paid {
    fn new(door: &Arc<Door>, toll: Toll) -> Self {
        Self { door: Arc::clone(door), toll, kept: false }
    }

    /// The I/O is issued: the tokens are spent.
    fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Paid {
    fn drop(&mut self) {
        if let (false, Some(gate)) = (self.kept, &self.door.partition) {
            let Toll { rank, direction, bytes, .. } = self.toll;
            let ops = self.toll.buffered_at(gate).unwrap_or(1);
            gate.gate(rank).refund(self.door.owner, rank, direction, bytes, ops);
        }
    }
}
