//! What drivers are tested with: the conformance suites of both shapes, and decorators that inject faults,
//! count, trace or capture. Fault injection ships, because users switch it on by parameters; the rest is for
//! tests.

#[cfg(feature = "testing")]
pub mod conformance;
pub mod decorate;
