//! Callbacks of calls, sends and receives.
//!
//! A callback is kept in place if what it captures is no longer than four words, as most do; memory of its
//! own would cost more than all else that a short message does on its way.

use smallbox::space::S4;
use smallbox::{SmallBox, smallbox};

use super::context::Context;
use super::messages::{ReceiveOutcome, SendError};
use super::outcome::Outcome;

macro_rules! callback {
    ($(#[$doc:meta])* $name:ident, $runs:ident, $outcome:ty) => {
        $(#[$doc])*
        pub struct $name(SmallBox<dyn $runs, S4>);

        impl $name {
            /// Always inlined, as is what it is called from: a callback can then be made where it stays.
            #[inline(always)]
            pub fn new(callback: impl FnOnce(&mut Context<'_>, $outcome) + Send + 'static) -> Self {
                Self(smallbox!(Some(callback)))
            }

            #[inline]
            pub fn run(mut self, context: &mut Context<'_>, outcome: $outcome) {
                self.0.run(context, outcome);
            }
        }

        trait $runs: Send {
            /// Nothing if it has been run.
            fn run(&mut self, context: &mut Context<'_>, outcome: $outcome);
        }

        impl<F: FnOnce(&mut Context<'_>, $outcome) + Send> $runs for Option<F> {
            fn run(&mut self, context: &mut Context<'_>, outcome: $outcome) {
                if let Some(callback) = self.take() {
                    callback(context, outcome);
                }
            }
        }
    };
}

callback! {
    /// Takes the outcome of a call.
    CallCallback, EndOfCall, &Outcome<'_>
}

callback! {
    /// Takes the end of a send.
    SendCallback, EndOfSend, Result<(), SendError>
}

callback! {
    /// Takes the end of a receive.
    ReceiveCallback, EndOfReceive, &ReceiveOutcome<'_>
}

macro_rules! place {
    ($name:ident, $callback:ident, $outcome:ty) => {
        /// Memory for a callback, which stays where it was made until it has run. The default has none.
        ///
        /// What was put together a moment ago is moved with a stall, because it is read by loads that are
        /// wider than the stores it was written by.
        #[derive(Default)]
        #[repr(align(64))]
        pub struct $name(Option<$callback>);

        impl $name {
            /// Makes a callback where it stays. There must be none: it would leak, because a drop would look
            /// at all of it, just behind the store that emptied the place.
            #[inline(always)]
            pub fn put(&mut self, make: impl FnOnce() -> $callback) {
                core::mem::forget(self.0.replace(make()));
            }

            /// Drops what is left of a callback that panicked.
            pub fn clear(&mut self) {
                self.0 = None;
            }

            /// Runs the callback, which is gone then.
            #[inline(always)]
            pub fn run(&mut self, context: &mut Context<'_>, outcome: $outcome) {
                let Some(callback) = &mut self.0 else { return };
                callback.0.run(context, outcome);
                if callback.0.is_heap() {
                    self.0 = None;
                } else {
                    // What it captured was moved out when it ran, so that there is nothing to drop.
                    core::mem::forget(self.0.take());
                }
            }
        }
    };
}

place! { SendPlace, SendCallback, Result<(), SendError> }
place! { ReceivePlace, ReceiveCallback, &ReceiveOutcome<'_> }

/// Places of which only the pointers move, so that callbacks can run while the slab is used.
pub type ReceivePlaces = Vec<Box<ReceivePlace>>;

impl ReceivePlace {
    /// Takes the callback out, to be run elsewhere.
    pub fn take(&mut self) -> Option<ReceiveCallback> {
        self.0.take()
    }
}
