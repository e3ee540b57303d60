//! Memory that waits for messages: buffers for frames, and what long payloads are fetched into.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::libfabric::{Context, Endpoint, Posted};

use crate::messages::Token;
use crate::messages::frame::{FRAME_TAG, sender_of};

/// The most memory that is kept for payloads which nobody waits for, of endpoints that may be dead, in bytes.
pub const DISOWNED_BYTES_MAX: usize = 64 << 20;

/// A buffer for one frame.
struct Buffer {
    /// Empty while somebody reads what has arrived in it.
    memory: Vec<u8>,
    context: Rc<Context>,
}

/// The buffers for frames.
pub struct Buffers {
    buffers: Vec<Buffer>,
    /// Those that the provider had no room for.
    waiting: VecDeque<u32>,
}

impl Buffers {
    /// This many buffers of this many bytes, none of which waits for a frame yet.
    pub fn new(count: usize, bytes: usize) -> Self {
        let buffer = |number: u32| Buffer {
            memory: vec![0; bytes],
            context: Rc::new(Context::new(Token::Frame(number).to_word())),
        };
        let count = count as u32;
        Self { buffers: (0..count).map(buffer).collect(), waiting: (0..count).collect() }
    }

    /// Lets the buffers that wait for the provider wait for frames, as many as it takes.
    pub fn post(&mut self, endpoint: &mut Endpoint) {
        while let Some(number) = self.waiting.pop_front() {
            let Buffer { memory, context } = &mut self.buffers[number as usize];
            // SAFETY: nobody touches the buffer until the provider is done, when `take` takes its memory; the
            // endpoint is closed before the buffers are dropped.
            #[expect(unsafe_code, reason = "the provider writes into the memory later")]
            let posted = unsafe { endpoint.receive_tagged(&raw mut memory[..], FRAME_TAG, context) };
            if posted != Posted::Taken {
                return self.waiting.push_front(number);
            }
        }
    }

    /// Takes the memory of a buffer in which a frame has arrived.
    #[inline]
    pub fn take(&mut self, number: u32) -> Vec<u8> {
        core::mem::take(&mut self.buffers[number as usize].memory)
    }

    /// Gives the memory back; it waits for another frame.
    #[inline]
    pub fn give_back(&mut self, endpoint: &mut Endpoint, number: u32, memory: Vec<u8>) {
        self.buffers[number as usize].memory = memory;
        self.waiting.push_back(number);
        self.post(endpoint);
    }
}

/// A long payload that is being fetched.
struct Fetch {
    head: Vec<u8>,
    memory: Vec<u8>,
    tag: u64,
    /// The number of the endpoint that it is from; `None` when its session is over and nobody waits for it.
    sender: Option<u32>,
}

/// The payloads that are being fetched.
pub struct Fetches {
    fetches: Vec<Option<Fetch>>,
    contexts: Vec<Rc<Context>>,
    vacant: Vec<u32>,
    /// Those that the provider does not have yet.
    waiting: VecDeque<u32>,
    with_provider: usize,
    /// The most that the provider is given at a time.
    depth: usize,
    /// Whether nobody waits for some, and they were not given up yet.
    any_disowned: bool,
}

impl Fetches {
    /// Nothing is being fetched; the provider is given `depth` receives at most.
    pub fn new(depth: usize) -> Self {
        let (fetches, contexts, vacant, waiting) = Default::default();
        Self { fetches, contexts, vacant, waiting, with_provider: 0, depth, any_disowned: false }
    }

    /// Whether nothing is being fetched.
    pub fn is_empty(&self) -> bool {
        self.vacant.len() == self.fetches.len()
    }

    /// How many payloads are being fetched.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.fetches.len() - self.vacant.len()
    }

    /// Begins to fetch a payload that was announced.
    #[cold]
    pub fn add(&mut self, endpoint: &mut Endpoint, head: &[u8], bytes: usize, tag: u64) {
        let number = self.vacant.pop().unwrap_or_else(|| {
            let number = self.fetches.len() as u32;
            self.fetches.push(None);
            self.contexts.push(Rc::new(Context::new(Token::Payload(number).to_word())));
            number
        });
        let sender = Some(sender_of(tag));
        self.fetches[number as usize] =
            Some(Fetch { head: head.to_vec(), memory: vec![0; bytes], tag, sender });
        self.waiting.push_back(number);
        self.post(endpoint);
    }

    /// Posts what waits for the provider, as much as it takes.
    pub fn post(&mut self, endpoint: &mut Endpoint) {
        if self.any_disowned && self.with_provider == self.depth && !self.waiting.is_empty() {
            self.cancel_disowned(endpoint);
        }
        while self.with_provider < self.depth
            && let Some(number) = self.waiting.pop_front()
        {
            let Some(Fetch { memory, tag, .. }) = &mut self.fetches[number as usize] else { continue };
            let context = &self.contexts[number as usize];
            // SAFETY: nobody touches the memory until the provider is done, when `end` takes it; the endpoint
            // is closed before the fetches are dropped.
            #[expect(unsafe_code, reason = "the provider writes into the memory later")]
            let posted = unsafe { endpoint.receive_tagged(&raw mut memory[..], *tag, context) };
            if posted != Posted::Taken {
                return self.waiting.push_front(number);
            }
            self.with_provider += 1;
        }
    }

    /// A fetch is over, and this many bytes came: gives head and payload if it is all of it, otherwise the
    /// number of the endpoint that it was from, unless nobody waited for it.
    pub fn end(&mut self, number: u32, bytes: Option<usize>) -> Result<(Vec<u8>, Vec<u8>), Option<u32>> {
        self.with_provider -= 1;
        let fetch = self.fetches[number as usize].take();
        let Fetch { head, memory, sender, .. } = fetch.expect("a fetch is completed once");
        self.vacant.push(number);
        if bytes == Some(memory.len()) { Ok((head, memory)) } else { Err(sender) }
    }

    /// Nobody waits any more for what comes from an endpoint. It is fetched all the same, because its sender
    /// cannot give it up, unless there is no room for others.
    pub fn disown(&mut self, peer: u32) {
        for fetch in self.fetches.iter_mut().flatten().filter(|fetch| fetch.sender == Some(peer)) {
            fetch.sender = None;
            self.any_disowned = true;
        }
    }

    /// As [`Fetches::disown`], of an endpoint that was silent for too long and may stand still: what it had
    /// begun to send comes when it goes on, and without a receive it would hold up all that comes behind it.
    /// A dead one sends nothing, so that no more than [`DISOWNED_BYTES_MAX`] waits for it.
    pub fn disown_silent(&mut self, endpoint: &mut Endpoint, peer: u32) {
        self.disown(peer);
        let disowned = self.fetches.iter().flatten().filter(|fetch| fetch.sender.is_none());
        if disowned.map(|fetch| fetch.memory.len()).sum::<usize>() > DISOWNED_BYTES_MAX {
            self.cancel_disowned(endpoint);
        }
    }

    /// Gives up what comes from an endpoint that is dead.
    pub fn cancel_from(&mut self, endpoint: &mut Endpoint, peer: u32) {
        self.disown(peer);
        self.cancel_disowned(endpoint);
    }

    /// Gives up what nobody waits for.
    fn cancel_disowned(&mut self, endpoint: &mut Endpoint) {
        self.any_disowned = false;
        let Self { fetches, contexts, vacant, waiting, .. } = self;
        waiting.retain(|&number| {
            let is_over = fetches[number as usize].take_if(|fetch| fetch.sender.is_none()).is_some();
            if is_over {
                vacant.push(number);
            }
            !is_over
        });
        for (fetch, context) in fetches.iter().zip(contexts) {
            if fetch.as_ref().is_some_and(|fetch| fetch.sender.is_none()) {
                endpoint.cancel(context);
            }
        }
    }
}
