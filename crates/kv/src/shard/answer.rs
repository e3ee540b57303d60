//! Where the answer to a request goes: to a caller over the network, or to a slot of a process of this host.

use farcall::Reply;

use crate::durable::Parked;
use crate::wire::Code;

/// Takes the one answer to a request.
pub trait Answer {
    /// Answers with a message that exists.
    fn send(self, message: &[u8]);

    /// Answers with a message of `bytes` bytes that `fill` writes.
    fn send_filled(self, bytes: usize, fill: impl FnOnce(&mut [u8]));

    /// Refuses.
    fn refuse(self, code: Code);

    /// Where the answer goes if it is given later.
    fn park(self) -> Parked;
}

impl Answer for Reply<'_> {
    #[inline]
    fn send(self, message: &[u8]) {
        Reply::send(self, message);
    }

    /// Writes into memory that is sent without a copy, where the driver can do so.
    fn send_filled(mut self, bytes: usize, fill: impl FnOnce(&mut [u8])) {
        match self.context().loan(bytes) {
            Ok(mut loan) => {
                fill(&mut loan);
                Reply::send(self, loan);
            }
            // All of it is with slow readers, or the answer is too long for it.
            Err(_) => {
                let mut message = vec![0; bytes];
                fill(&mut message);
                Reply::send(self, &message);
            }
        }
    }

    fn refuse(self, code: Code) {
        Reply::refuse(self, code as u8);
    }

    fn park(self) -> Parked {
        Parked::Call(self.defer().0)
    }
}
