//! A process that lives and does not poll.
//!
//! An endpoint speaks only while it is polled. What its program does meanwhile (it computes, waits in a
//! barrier, looks something up, stands in a breakpoint) must not end its sessions, so a thread of the process
//! answers for all of its endpoints, at a TCP port beside them: it says whether the process still has an
//! endpoint, to peers of that endpoint alone. TCP, because the kernel of a machine takes a connection in for
//! a process that was stopped, and refuses it for one that has ended. `docs/protocol/life.md` has the bytes.

mod answering;
mod asking;
mod keeper;
mod place;
mod ports;
mod words;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use farcall_protocol::session::LifeQuestion;
use farcall_protocol::wire::LifePort;
use farcall_transport::{LifeAnswer, LifeWatch};

use asking::{Mailbox, Request};
use keeper::Keeper;
use place::Place;

/// The most questions that wait for the thread, and the most that wait for a connection. What finds no room
/// is asked again.
const REQUESTS_MAX: usize = 4096;

/// Answers for an endpoint of this process, and asks for it.
pub struct Watch {
    keeper: Arc<Keeper>,
    place: Place,
    mailbox: Arc<Mailbox>,
}

impl Watch {
    /// Answers at this address of the machine: at the first free port from `first_port` on, or at any. Where
    /// the process listens at the address already, that port is kept.
    pub fn at(ip: IpAddr, first_port: Option<u16>) -> io::Result<Self> {
        let keeper = Keeper::of_process()?;
        let place = keeper.answer_at(ip, first_port)?;
        Ok(Self { keeper, place, mailbox: Arc::default() })
    }
}

impl LifeWatch for Watch {
    fn port(&self) -> Option<LifePort> {
        Some(self.place.to_port())
    }

    fn ask(&mut self, LifeQuestion { session, port }: LifeQuestion) {
        self.keeper.ask(Request { port, session, mailbox: Arc::clone(&self.mailbox) });
    }

    fn next_answer(&mut self) -> Option<LifeAnswer> {
        self.mailbox.take()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.keeper.forget(self.place.endpoint);
    }
}
