//! The file that describes a tuning: the space, what is run, what is read from it, and how the search is done.

use serde::{Deserialize, Serialize};

use crate::space::{EmitEntry, ParameterEntry, RequireEntry, Space, SpaceError};

/// The file, as it stands there.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentFile {
    /// `[[parameter]]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameter: Vec<ParameterEntry>,
    /// `[[require]]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub require: Vec<RequireEntry>,
    /// `[[emit]]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub emit: Vec<EmitEntry>,
}

impl ExperimentFile {
    /// Its space.
    pub fn space(&self) -> Result<Space, SpaceError> {
        Space::from_entries(&self.parameter, &self.require, &self.emit, |_| Ok(Vec::new()))
    }
}
