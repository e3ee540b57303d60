//! Sessions without messages.
