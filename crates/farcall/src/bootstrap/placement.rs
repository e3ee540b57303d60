//! Where a process is to run, and whom it must not outlive.

use std::ffi::OsString;

use super::LaunchError;
use super::variables::{CORE_VARIABLE, PARENT_VARIABLE, read};

/// What whoever started this process asks of it, beside its rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The process that this one must not outlive.
    pub parent: Option<u32>,
    /// The core that the starting thread is to run on.
    pub core: Option<u32>,
}

impl Placement {
    /// The placement that this process's environment gives.
    pub fn from_env() -> Result<Self, LaunchError> {
        Self::from_lookup(|variable| std::env::var_os(variable))
    }

    /// The placement that the variables in `lookup` give.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Self, LaunchError> {
        let process =
            |text: &str| text.parse().ok().filter(|process| (1..=i32::MAX as u32).contains(process));
        let core = |text: &str| text.parse().ok().filter(|core| *core < CORES_MAX);
        Ok(Self {
            parent: read(&lookup, PARENT_VARIABLE, "a process id", process)?,
            core: read(&lookup, CORE_VARIABLE, "the number of a core from 0 to 1023", core)?,
        })
    }
}

/// Cores that a processor set of the operating system can name.
const CORES_MAX: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placement_is_a_process_and_a_core() {
        let parse = |variables: &[(&str, &str)]| {
            Placement::from_lookup(|wanted| {
                variables.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.into())
            })
        };
        assert_eq!(parse(&[]), Ok(Placement::default()));
        let both = parse(&[(PARENT_VARIABLE, "4711"), (CORE_VARIABLE, "1")]);
        assert_eq!(both, Ok(Placement { parent: Some(4711), core: Some(1) }));
        for (variable, text) in [(PARENT_VARIABLE, "0"), (PARENT_VARIABLE, "me"), (CORE_VARIABLE, "1024")] {
            let error = parse(&[(variable, text)]).expect_err("the variable is wrong").to_string();
            assert!(error.starts_with(&format!("{variable}=`{text}` is not ")), "{error}");
        }
    }
}
