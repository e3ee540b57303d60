//! Registers that members compare and set: the smallest thing on which they can agree.

use std::collections::BTreeMap;

use super::super::limits::VALUES_MAX;
use super::super::messages::Answer;
use super::registry::Fault;

/// The registers by key, each with its revision. They live as long as the registry.
#[derive(Default)]
pub(super) struct Values {
    values: BTreeMap<String, (u64, Vec<u8>)>,
    /// The revision given last; revisions of all registers are different.
    revisions_used: u64,
}

impl Values {
    /// Sets the register if its revision is the expected one; 0 is that of a register that does not exist.
    /// The answer is the register as it is afterwards.
    pub(super) fn compare_and_set(
        &mut self,
        request: u64,
        key: String,
        expected: u64,
        value: Vec<u8>,
    ) -> Result<Answer, Fault> {
        let present = self.values.get(&key);
        let revision = present.map_or(0, |(revision, _)| *revision);
        if revision != expected {
            let value = present.map(|(_, value)| value.clone()).unwrap_or_default();
            return Ok(Answer::Compared { request, was_set: false, revision, value });
        }
        if present.is_none() && self.values.len() >= VALUES_MAX {
            return Err(Fault::Full);
        }
        self.revisions_used += 1;
        let revision = self.revisions_used;
        self.values.insert(key, (revision, value.clone()));
        Ok(Answer::Compared { request, was_set: true, revision, value })
    }
}
