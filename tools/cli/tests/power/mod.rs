//! What a test of power cuts is made of: a disk whose power goes, a machine, and what is written there.

pub mod disk;
pub mod guest;
pub mod plan;
