//! The basic protocol in virtual time.

mod calls;
mod lifecycle;
mod loss;
mod properties;
mod world;
