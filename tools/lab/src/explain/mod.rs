//! From figures to reasons: what figures say, where the time of traced calls went, what factors do, runs in
//! folders, and all of it on a page.

pub mod analysis;
pub mod page;
pub mod recorded;
pub mod trace;
pub mod vary;
