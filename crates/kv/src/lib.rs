//! A key-value store in the memory of a cluster.
//!
//! [`store`] is the data structure: tables of versioned objects in log-structured memory, for one thread, without
//! clock or network. It follows RAMCloud's (Rumble, Kejriwal and Ousterhout, "Log-structured memory for DRAM-based
//! storage", FAST 2014) without the copies on disk: what a process stores is gone when the process is.

mod limits;
pub mod store;

pub use limits::{
    KEY_BYTES_MAX, LimitError, Name, TABLE_NAME_BYTES_MAX, TABLES_MAX, TableId, VALUE_BYTES_MAX, Value,
};
