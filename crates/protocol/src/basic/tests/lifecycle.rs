//! Peers that come, go, die and come back.
