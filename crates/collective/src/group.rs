//! Groups: who takes part, how members reach each other, and how a failure gets to all of them.
//!
//! Everything that is awaited in an operation is awaited together with a receive for *aborts*, from any
//! member. The member that fails sends one to all that it has sessions to, and these pass it on. A member
//! waits only for members to which it has a session, so that an abort reaches all that wait, and none waits
//! for its deadline.

use core::cell::{Cell, RefCell};
use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::{Context, Poll};
use core::time::Duration;
use std::collections::BTreeMap;

use farcall::{AnySource, Endpoint, Instant, Message, Peer, ReceiveError, Receiving, Sending, Service, Tag};

use crate::algorithms::Algorithms;
use crate::error::{CollectiveError, GroupError};
use crate::exchange::SharedInbox;

/// The time that an operation has unless it is given another one.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// The longest that a failure waits until the other members are told.
const ABORT_TIMEOUT: Duration = Duration::from_millis(500);

/// Names a group among those of its endpoints. Members use the same id for a group, and different ones for
/// groups that exist at the same time or one after another: messages of a broken group may still arrive.
///
/// A group has eight tags from 0xffff_f000 on and two services from 1024 on. Programs leave those to groups,
/// and do not receive with [`AnyTag`](farcall::AnyTag) on an endpoint that has groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupId(u16);

/// How many ids there are.
pub const GROUP_IDS: u16 = 512;

const FIRST_TAG: u32 = u32::MAX - 8 * GROUP_IDS as u32 + 1;
const FIRST_SERVICE: u16 = 1024;

impl GroupId {
    /// The id with this number.
    ///
    /// # Panics
    /// From [`GROUP_IDS`] on.
    pub const fn new(number: u16) -> Self {
        assert!(number < GROUP_IDS, "group ids are below GROUP_IDS");
        Self(number)
    }

    const fn tag(self, kind: Kind) -> Tag {
        Tag(FIRST_TAG + 8 * self.0 as u32 + kind as u32)
    }

    /// Carries chunks behind which more of their message follows.
    pub(crate) const fn chunk(self) -> Service {
        Service(FIRST_SERVICE + 2 * self.0)
    }

    /// Carries the last chunk of each message.
    pub(crate) const fn last_chunk(self) -> Service {
        Service(FIRST_SERVICE + 2 * self.0 + 1)
    }
}

/// What a message belongs to. With a tag for each kind of operation, members that call different ones wait
/// for each other until their deadlines, and do not take one's messages for the other's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Abort,
    Barrier,
    Broadcast,
    Gather,
    AllGather,
    AllReduce,
    AllToAll,
    /// The barrier before the first exchange.
    Exchange,
}

/// A member's view of a group of processes that do collective operations: what MPI calls a communicator.
///
/// Members are numbered from 0 in the order of the ranks that the group was made of; these numbers are the
/// *members* of all operations. All members call the same operations in the same order, with arguments that
/// fit. The endpoint must be polled for an operation to progress: [`Collective::wait`] does that, and so does
/// an [`Executor`](farcall::Executor).
///
/// ```
/// use farcall::Node;
/// use farcall_collective::{Group, GroupId, sum};
///
/// let node = Node::alone()?;
/// let endpoint = node.endpoint("ring+shm")?;
/// let mut group = Group::new(&endpoint, GroupId::new(0), node.rank(), 0..node.size())?;
/// let mut values = [1.0, 2.0];
/// group.all_reduce(&mut values, sum).wait()?;
/// group.barrier().wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`Collective::wait`]: crate::Collective::wait
pub struct Group<'e> {
    pub(crate) endpoint: &'e Endpoint,
    pub(crate) id: GroupId,
    ranks: Box<[u32]>,
    own: u32,
    algorithms: Algorithms,
    pub(crate) peers: RefCell<Box<[Option<Peer>]>>,
    timeout: Duration,
    /// That of the operation in flight, and what it is.
    pub(crate) current_timeout: Cell<Duration>,
    current_kind: Cell<Kind>,
    failure: RefCell<Option<CollectiveError>>,
    /// Aborts that may not have left: of a group that broke while an operation ended well.
    untold: RefCell<Vec<Sending<'e>>>,
    /// The members whose messages are awaited.
    pub(crate) awaited: RefCell<Vec<u32>>,
    /// The members of which it is not known where they are, and since when that is asked.
    pub(crate) looked_since: RefCell<BTreeMap<u32, Instant>>,
    pub(crate) inbox: SharedInbox,
    /// Whether all members are known to have made the group.
    pub(crate) has_met: Cell<bool>,
}

impl<'e> Group<'e> {
    /// The group of the endpoints 0 of these ranks. `own` is the rank of this process, and one of them.
    ///
    /// Exchanges no messages: sessions are opened when they are first used.
    pub fn new(
        endpoint: &'e Endpoint,
        id: GroupId,
        own: u32,
        ranks: impl IntoIterator<Item = u32>,
    ) -> Result<Self, GroupError> {
        let ranks: Box<[u32]> = ranks.into_iter().collect();
        let mut sorted = ranks.to_vec();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(GroupError::Twice { rank: twice[0] });
        }
        let own_member = ranks.iter().position(|&rank| rank == own).ok_or(GroupError::NotAMember { own })?;
        Ok(Self {
            inbox: SharedInbox::serve(endpoint, id, &ranks),
            endpoint,
            id,
            peers: RefCell::new(vec![None; ranks.len()].into()),
            ranks,
            own: own_member as u32,
            algorithms: Algorithms::default(),
            timeout: TIMEOUT_DEFAULT,
            current_timeout: Cell::new(TIMEOUT_DEFAULT),
            current_kind: Cell::new(Kind::Barrier),
            failure: RefCell::new(None),
            untold: RefCell::default(),
            awaited: RefCell::new(Vec::new()),
            looked_since: RefCell::default(),
            has_met: Cell::new(false),
        })
    }

    /// Sets the algorithms; the same at all members.
    ///
    /// # Panics
    /// When messages are to have segments of no bytes, or trees no children.
    pub fn with_algorithms(mut self, algorithms: Algorithms) -> Self {
        algorithms.check();
        self.algorithms = algorithms;
        self
    }

    /// Sets the time that operations have, [`TIMEOUT_DEFAULT`] until then.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How many members there are.
    pub fn size(&self) -> u32 {
        self.ranks.len() as u32
    }

    /// The number of this member.
    pub fn own(&self) -> u32 {
        self.own
    }

    /// The rank of a member in the cluster.
    ///
    /// # Panics
    /// When there is no such member.
    pub fn rank_of(&self, member: u32) -> u32 {
        self.ranks[member as usize]
    }

    /// How operations are done.
    pub fn algorithms(&self) -> &Algorithms {
        &self.algorithms
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &'e Endpoint {
        self.endpoint
    }

    /// Why the group is broken, if it is.
    pub fn failure(&self) -> Option<CollectiveError> {
        self.failure.borrow().clone()
    }

    /// The member at this distance behind this one, around the group.
    pub(crate) fn behind(&self, distance: u32) -> u32 {
        (self.own + distance) % self.size()
    }

    /// The member at this distance before this one, around the group.
    pub(crate) fn before(&self, distance: u32) -> u32 {
        (self.own + self.size() - distance % self.size()) % self.size()
    }

    pub(crate) fn is_not_awaited(&self, member: u32) {
        let mut awaited = self.awaited.borrow_mut();
        if let Some(place) = awaited.iter().position(|&other| other == member) {
            awaited.swap_remove(place);
        }
    }

    fn data_tag(&self) -> Tag {
        self.id.tag(self.current_kind.get())
    }

    /// Sends a message: segments, of which the first that is not full is the last.
    pub(crate) async fn send(&self, to: u32, message: &[u8]) -> Result<(), CollectiveError> {
        let (peer, timeout, segment_bytes) =
            (self.peer(to).await?, self.current_timeout.get(), self.algorithms.segment_bytes);
        let mut rest = message;
        loop {
            let (segment, later) = rest.split_at(rest.len().min(segment_bytes));
            let sending = self.endpoint.send(peer, self.data_tag(), segment).within(timeout).start();
            let end = match sending {
                Ok(sending) => sending.await,
                Err(refused) => Err(refused),
            };
            end.map_err(|error| CollectiveError::of_send(to, error))?;
            if segment.len() < segment_bytes {
                return Ok(());
            }
            rest = later;
        }
    }

    /// The next segment of a member.
    pub(crate) async fn receive_segment(&self, from: u32) -> Result<Message<'e>, CollectiveError> {
        let peer = self.peer(from).await?;
        self.awaited.borrow_mut().push(from);
        let end = loop {
            // The deadline is that of the operation; one of the endpoint's own changes nothing.
            match self.receive_within_endpoint_timeout(peer).await {
                Err(ReceiveError::TimedOut) => {}
                end => break end,
            }
        };
        self.is_not_awaited(from);
        end.map_err(|error| CollectiveError::of_receive(from, error))
    }

    async fn receive_within_endpoint_timeout(&self, peer: Peer) -> Result<Message<'e>, ReceiveError> {
        self.endpoint.receive(peer, self.data_tag()).start()?.await
    }

    /// Runs an operation to its end, to its deadline or to the first abort, whichever comes first. Its
    /// failure is that of the group.
    pub(crate) async fn run<T>(
        &self,
        body: impl Future<Output = Result<T, CollectiveError>>,
    ) -> Result<T, CollectiveError> {
        if let Some(failure) = self.failure() {
            self.let_leave(self.untold.take()).await;
            return Err(failure);
        }
        let guard = BrokenIfDropped { group: self, has_ended: false };
        let result = self.run_or_abort(body).await;
        guard.disarm();
        self.awaited.borrow_mut().clear();
        self.looked_since.borrow_mut().clear();
        if let Err(error) = &result {
            let aborts = self.fail(error.clone());
            self.let_leave(aborts).await;
        }
        // What this member sent last is what others wait for, and the next poll may be far away.
        self.endpoint.flush();
        result
    }

    async fn run_or_abort<T>(
        &self,
        body: impl Future<Output = Result<T, CollectiveError>>,
    ) -> Result<T, CollectiveError> {
        if self.size() == 1 {
            return body.await;
        }
        let timeout = self.current_timeout.get();
        let aborts = self.endpoint.receive(AnySource, self.id.tag(Kind::Abort)).within(timeout).start();
        let mut aborts = aborts.map_err(|error| CollectiveError::of_receive(self.own, error))?;
        let mut body = pin!(body);
        let result = poll_fn(|task| match body.as_mut().poll(task) {
            Poll::Ready(Ok(value)) => Poll::Ready(Ok(value)),
            // The cause is rather in the abort than in what followed from it.
            Poll::Ready(Err(error)) => Poll::Ready(Err(self.aborted(&mut aborts, task).unwrap_or(error))),
            Poll::Pending => match self.aborted(&mut aborts, task) {
                Some(error) => Poll::Ready(Err(error)),
                None => Poll::Pending,
            },
        })
        .await;
        // An abort that came with the last message is for the next operation.
        if result.is_ok()
            && let Ok(abort) = aborts.cancel()
        {
            // This operation has ended in its time: the next one waits until the others are told.
            self.untold.replace(self.fail(self.understood(&abort)));
        }
        result
    }

    /// The error of an abort that came, or of the deadline.
    fn aborted(&self, aborts: &mut Receiving<'e>, task: &mut Context<'_>) -> Option<CollectiveError> {
        let Poll::Ready(end) = Pin::new(aborts).poll(task) else { return None };
        Some(match end {
            Ok(message) => self.understood(&message),
            Err(ReceiveError::TimedOut) => {
                CollectiveError::TimedOut { member: self.awaited.borrow().first().copied() }
            }
            Err(error) => CollectiveError::of_receive(self.own, error),
        })
    }

    pub(crate) fn understood(&self, message: &Message<'e>) -> CollectiveError {
        let number = |bytes: Option<&[u8; 4]>| bytes.map(|bytes| u32::from_le_bytes(*bytes));
        let is_member = |member: &u32| *member < self.size();
        CollectiveError::Aborted {
            by: number(message.first_chunk())
                .filter(is_member)
                .unwrap_or_else(|| self.member_of(message.peer())),
            failed: number(message.last_chunk()).filter(is_member),
        }
    }

    fn member_of(&self, peer: Peer) -> u32 {
        self.ranks.iter().position(|&rank| rank == peer.rank()).map_or(u32::MAX, |member| member as u32)
    }

    /// A receive for aborts of one member, which also ends with its session; `None` as of
    /// [`Group::look_for`].
    pub(crate) fn watch(&self, member: u32) -> Result<Option<Receiving<'e>>, CollectiveError> {
        let Some(peer) = self.look_for(member)? else { return Ok(None) };
        let timeout = self.current_timeout.get();
        let watch = self.endpoint.receive(peer, self.id.tag(Kind::Abort)).within(timeout).start();
        watch.map(Some).map_err(|error| CollectiveError::of_receive(member, error))
    }

    /// Breaks the group, and tells the members to which there are sessions: among them are all that wait for
    /// this one. They tell others in turn.
    fn fail(&self, error: CollectiveError) -> Vec<Sending<'e>> {
        let by = if let CollectiveError::Aborted { by, .. } = error { by } else { self.own };
        let mut abort = [0; 8];
        abort[..4].copy_from_slice(&by.to_le_bytes());
        abort[4..].copy_from_slice(&error.member().unwrap_or(u32::MAX).to_le_bytes());
        self.failure.replace(Some(error));
        self.inbox.close();
        let others = (0..self.size()).filter(|&member| member != self.own);
        // A session that opens counts: what it is opened for leaves before the abort.
        let opening = |member: u32| self.peers.borrow()[member as usize];
        let session = |member: u32| self.endpoint.unconfirmed_session_with(self.rank_of(member));
        let peers = others.filter_map(|member| session(member).or_else(|| opening(member)));
        let send = |peer| self.endpoint.send(peer, self.id.tag(Kind::Abort), &abort).within(ABORT_TIMEOUT);
        // A member that cannot be told is down, or told by the end of our session.
        peers.filter_map(|peer| send(peer).start().ok()).collect()
    }

    /// Waits until aborts have left: a program that has failed may not poll again.
    async fn let_leave(&self, aborts: Vec<Sending<'e>>) {
        if aborts.is_empty() {
            return;
        }
        for abort in aborts {
            let _not_told = abort.await;
        }
        let clock = self.endpoint.clock();
        let until = clock.now() + ABORT_TIMEOUT;
        poll_fn(|task| {
            if self.endpoint.holdings().backlog == 0 || clock.now() >= until {
                return Poll::Ready(());
            }
            task.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// The operation whose future this is.
    pub(crate) fn operation<'a, T: 'a>(
        &'a self,
        kind: Kind,
        body: impl Future<Output = Result<T, CollectiveError>> + 'a,
    ) -> Collective<'a, T> {
        self.current_timeout.set(self.timeout);
        self.current_kind.set(kind);
        Collective {
            endpoint: self.endpoint,
            timeout: &self.current_timeout,
            future: Box::pin(self.run(body)),
        }
    }
}

impl core::fmt::Debug for Group<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Group({}, member {} of {})", self.id.0, self.own, self.size())
    }
}

/// Breaks the group when an operation is dropped before its end: its messages would be taken for those of the
/// next one.
struct BrokenIfDropped<'g, 'e> {
    group: &'g Group<'e>,
    has_ended: bool,
}

impl BrokenIfDropped<'_, '_> {
    fn disarm(mut self) {
        self.has_ended = true;
    }
}

impl Drop for BrokenIfDropped<'_, '_> {
    fn drop(&mut self) {
        if !self.has_ended {
            drop(self.group.fail(CollectiveError::Dropped));
        }
    }
}

/// An operation of a group: a future, which can also be waited for or looked at now and then. It begins when
/// it is first polled.
///
/// It ends when this member's part is done: a broadcast at its root when the messages are on their way, and
/// not when all have them. As with any message of farcall, the last ones may leave with the endpoint's next
/// poll; `wait` makes it. Dropping an operation after it has begun breaks the group.
#[must_use = "an operation begins when it is waited for, awaited or polled"]
pub struct Collective<'a, T> {
    endpoint: &'a Endpoint,
    timeout: &'a Cell<Duration>,
    future: Pin<Box<dyn Future<Output = Result<T, CollectiveError>> + 'a>>,
}

impl<T> Collective<'_, T> {
    /// Sets how long the operation may take, instead of the group's timeout. Counted from its beginning.
    pub fn within(self, timeout: Duration) -> Self {
        self.timeout.set(timeout);
        self
    }

    /// Polls the endpoint until the operation has ended.
    pub fn wait(self) -> Result<T, CollectiveError> {
        let endpoint = self.endpoint;
        let result = endpoint.block_on(self);
        // Messages of an operation that has ended here may still have to leave.
        endpoint.poll_once();
        result
    }

    /// Does what can be done now; gives the result once, when there is one. For programs with a poll loop of
    /// their own, which call it after each poll of the endpoint.
    pub fn poll_now(&mut self) -> Option<Result<T, CollectiveError>> {
        let mut task = Context::from_waker(core::task::Waker::noop());
        match self.future.as_mut().poll(&mut task) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        }
    }
}

impl<T> Future for Collective<'_, T> {
    type Output = Result<T, CollectiveError>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        self.future.as_mut().poll(task)
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        self.inbox.close();
    }
}
