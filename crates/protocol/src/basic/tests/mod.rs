//! The basic protocol in virtual time.

mod calls;
mod loss;
mod world;
