//! Exchanges: messages between any pairs of members, pushed in chunks to many at the same time. With a
//! message for every other member it is the all-to-all shuffle of MilliSort; with a few it is what MPI calls
//! a neighbour all-to-all-v, the halo exchange of grid codes.

mod inbox;
mod push;

use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll};

use farcall::{Instant, Outgoing, ReceiveError, Receiving};

use crate::algorithms::PushLimits;
use crate::error::CollectiveError;
use crate::group::{Collective, Group, Kind};
pub(crate) use inbox::SharedInbox;
use push::Push;

impl<'e> Group<'e> {
    /// Sends each message of `messages` to its member, and receives one from each member of `sources`. All
    /// members take part, also those without messages; who sends to whom must fit, and there is at most one
    /// message from a member to another in an exchange. Lengths need not be known to receivers, and may be 0.
    ///
    /// `sink` gets each chunk with the number of its sender, where it was received; chunks of one sender come
    /// in order. It runs inside polls of the endpoint. The result is the time on the endpoint's clock at
    /// which the last chunk for this member arrived, or at which it began if there were none. The operation
    /// ends when all its messages are delivered, too.
    ///
    /// All messages are pushed at the same time, chunk by chunk, within `limits`. The first exchange of a
    /// group begins with a barrier: chunks are calls, which nobody serves before the group exists.
    ///
    /// # Panics
    /// When a member is not in the group, is this one, or is there twice; or when a limit is 0.
    ///
    /// ```
    /// # use farcall::{Node, Outgoing};
    /// # use farcall_collective::{Group, GroupId, PushLimits};
    /// # let node = Node::alone()?;
    /// # let endpoint = node.endpoint("ring+shm")?;
    /// # let mut group = Group::new(&endpoint, GroupId::new(0), node.rank(), 0..node.size())?;
    /// // To the neighbours on both sides.
    /// let (own, size) = (group.own(), group.size());
    /// let neighbours: Vec<u32> = (0..size).filter(|&member| own.abs_diff(member) == 1).collect();
    /// let messages = neighbours.iter().map(|&member| (member, Outgoing::from(b"halo"))).collect();
    /// let show = |member: u32, chunk: &[u8]| println!("{} bytes of member {member}", chunk.len());
    /// group.exchange(messages, &neighbours, PushLimits::default(), show).wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn exchange<'a>(
        &'a mut self,
        messages: Vec<(u32, Outgoing<'a>)>,
        sources: &[u32],
        limits: PushLimits,
        sink: impl FnMut(u32, &[u8]) + Send + 'static,
    ) -> Collective<'a, Instant> {
        let least = limits.chunk_bytes.min(limits.pending_max).min(limits.outstanding_max);
        assert!(least > 0, "an exchange needs room for a chunk");
        self.marked(&mut messages.iter().map(|(to, _)| *to));
        let expected = self.marked(&mut sources.iter().copied());
        let group = &*self;
        group.operation(Kind::Exchange, async move {
            if !group.has_met.get() {
                group.dissemination().await?;
            }
            group.inbox.begin(group.endpoint, expected, Box::new(sink));
            let mut exchange = Running {
                group,
                push: Push::new(group, messages, limits),
                watch: None,
                last_arrival: group.endpoint.clock().now(),
            };
            poll_fn(move |task| exchange.poll(task)).await
        })
    }

    /// Which members are among the given ones.
    fn marked(&self, members: &mut dyn Iterator<Item = u32>) -> Vec<bool> {
        let mut marks = vec![false; self.size() as usize];
        for member in members {
            assert_ne!(member, self.own(), "a member exchanges nothing with itself");
            let mark = marks.get_mut(member as usize).expect("a member of the group");
            assert!(!core::mem::replace(mark, true), "one message from a member to another");
        }
        marks
    }
}

/// An exchange in flight.
struct Running<'g, 'e> {
    group: &'g Group<'e>,
    push: Push<'g, 'e>,
    /// A member from which something is still expected, and what ends when it is down. Responses to our
    /// chunks report others; this is for those that we have nothing to send to. One at a time is enough: the
    /// rest come to an end.
    watch: Option<(u32, Receiving<'e>)>,
    last_arrival: Instant,
}

impl Running<'_, '_> {
    fn poll(&mut self, task: &mut Context<'_>) -> Poll<Result<Instant, CollectiveError>> {
        self.advance(task).map_or_else(|error| Poll::Ready(Err(error)), |poll| poll.map(Ok))
    }

    fn advance(&mut self, task: &mut Context<'_>) -> Result<Poll<Instant>, CollectiveError> {
        let news = self.group.inbox.news(task.waker());
        if news.has_arrivals {
            self.last_arrival = self.group.endpoint.clock().now();
        }
        for (message, end) in news.answered {
            self.push.answered(message, end)?;
        }
        let looks_again = self.push.push()?;
        if self.push.is_done() && news.awaited.is_none() {
            self.unwatch()?;
            return Ok(Poll::Ready(self.last_arrival));
        }
        if looks_again {
            // No task is woken when the driver has a chunk entirely, or when the directory knows a member.
            task.waker().wake_by_ref();
        }
        self.watch(news.awaited, task)?;
        Ok(Poll::Pending)
    }

    /// Ends the watch; an abort that came meanwhile must not be lost with it.
    fn unwatch(&mut self) -> Result<(), CollectiveError> {
        match self.watch.take().map(|(_, watch)| watch.cancel()) {
            Some(Ok(abort)) => Err(self.group.understood(&abort)),
            Some(Err(_)) | None => Ok(()),
        }
    }

    fn watch(&mut self, awaited: Option<u32>, task: &mut Context<'_>) -> Result<(), CollectiveError> {
        let Some(awaited) = awaited else { return self.unwatch() };
        if self.watch.as_ref().is_none_or(|(member, _)| *member != awaited) {
            self.unwatch()?;
            match self.group.watch(awaited)? {
                Some(watch) => self.watch = Some((awaited, watch)),
                None => task.waker().wake_by_ref(),
            }
        }
        let Some((member, watch)) = &mut self.watch else { return Ok(()) };
        match Pin::new(watch).poll(task) {
            Poll::Pending => Ok(()),
            Poll::Ready(Ok(abort)) => Err(self.group.understood(&abort)),
            Poll::Ready(Err(ReceiveError::TimedOut)) => {
                Err(CollectiveError::TimedOut { member: Some(*member) })
            }
            Poll::Ready(Err(error)) => Err(CollectiveError::of_receive(*member, error)),
        }
    }
}
