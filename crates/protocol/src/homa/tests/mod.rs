//! Homa in virtual time.
