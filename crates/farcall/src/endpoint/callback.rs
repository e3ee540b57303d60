//! Callbacks of calls, sends and receives.
//!
//! A callback is kept in place if what it captures is no longer than four words, as most do; memory of its own would cost more
//! than all else that a short message does on its way.

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
