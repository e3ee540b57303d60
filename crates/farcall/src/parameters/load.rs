//! Settings from defaults, a file, the environment and the command line, each overruling those before it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use toml::{Table, Value as TomlValue};

use super::nearest::{edits, nearest};
use super::parameter::ENVIRONMENT_PREFIX;
use super::{Invalid, Origin, PARAMETERS, Parameter, Settings, SettingsError};
use crate::bootstrap::LAUNCH_VARIABLES;

/// The environment variable that names the configuration file.
pub const CONFIG_VARIABLE: &str = "FARCALL_CONFIG";

/// Variables with this prefix are nobody's parameters: programs and tests may use them as they like.
const FREE_PREFIX: &str = "FARCALL_TEST_";

/// An unknown variable is taken for a parameter that was written wrongly when at most one character in this
/// many is another one. Orchestrators and module systems set variables with any name's prefix
/// (`FARCALL_SERVICE_HOST`, `FARCALL_ROOT`): those name nothing of farcall's.
const CHARACTERS_PER_MISTAKE: usize = 4;

/// What settings are made of, beside the defaults.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The configuration file's name and content.
    pub file: Option<(PathBuf, String)>,
    /// Environment variables; those that are not farcall's are ignored.
    pub environment: Vec<(OsString, OsString)>,
    /// Assignments `name=value`, in order; the last one wins.
    pub assignments: Vec<String>,
}

impl Sources {
    /// The sources of this process: its environment, the file that [`CONFIG_VARIABLE`] names, and
    /// `assignments`.
    pub fn of_process(assignments: impl IntoIterator<Item = String>) -> Result<Self, SettingsError> {
        let file = std::env::var_os(CONFIG_VARIABLE).map(PathBuf::from).map(read_file).transpose()?;
        let assignments = assignments.into_iter().collect();
        Ok(Self { file, environment: std::env::vars_os().collect(), assignments })
    }

    /// What the file and the environment set, as assignments in the order in which they take effect.
    pub fn inherited(&self) -> Result<Vec<String>, SettingsError> {
        let mut assignments = Vec::new();
        if let Some((path, content)) = &self.file {
            assignments = of_file(path, content)?;
        }
        for (variable, text) in &self.environment {
            let variable = variable.to_string_lossy();
            if let (Variable::Parameter(parameter), Some(text)) = (Variable::named(&variable), text.to_str())
            {
                assignments.push((parameter.name.to_owned(), text.to_owned()));
            }
        }
        Ok(assignments.into_iter().map(|(name, text)| format!("{name}={text}")).collect())
    }
}

/// The names in a configuration file, each with its text.
fn of_file(path: &Path, content: &str) -> Result<Vec<(String, String)>, SettingsError> {
    let malformed = |error: toml::de::Error| SettingsError::FileMalformed {
        path: path.to_owned(),
        reason: error.to_string().trim_end().to_owned(),
    };
    let mut named = Vec::new();
    of_table(path, "", &content.parse().map_err(malformed)?, &mut named)?;
    Ok(named)
}

fn of_table(
    path: &Path,
    prefix: &str,
    table: &Table,
    named: &mut Vec<(String, String)>,
) -> Result<(), SettingsError> {
    for (key, value) in table {
        let name = format!("{prefix}{key}");
        let text = match value {
            TomlValue::Table(inner) => {
                of_table(path, &format!("{name}."), inner, named)?;
                continue;
            }
            TomlValue::String(text) => text.clone(),
            TomlValue::Integer(number) => number.to_string(),
            TomlValue::Boolean(yes) => yes.to_string(),
            other => {
                let found = other.type_str();
                return Err(SettingsError::FileValue { path: path.to_owned(), name, found });
            }
        };
        named.push((name, text));
    }
    Ok(())
}

/// The variables of this process's environment that begin as farcall's do and are nobody's. They have no
/// effect.
pub fn stray_variables() -> Vec<String> {
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    let mut stray: Vec<String> =
        names.filter(|name| matches!(Variable::named(name), Variable::Stray)).collect();
    stray.sort_unstable();
    stray
}

/// What an environment variable is to farcall.
enum Variable {
    /// It sets a parameter.
    Parameter(&'static Parameter),
    /// Something else reads it, or it is not ours.
    Others,
    /// It has our prefix, and resembles no name of ours.
    Stray,
    /// It has our prefix, and nearly this name.
    NearMiss(String),
}

impl Variable {
    fn named(name: &str) -> Self {
        let reserved = || LAUNCH_VARIABLES.iter().chain([&CONFIG_VARIABLE]);
        let Some(rest) = name.strip_prefix(ENVIRONMENT_PREFIX).filter(|_| !name.starts_with(FREE_PREFIX))
        else {
            return Self::Others;
        };
        if reserved().any(|other| *other == name) {
            return Self::Others;
        }
        if let Some(parameter) = PARAMETERS.iter().find(|parameter| parameter.environment() == name) {
            return Self::Parameter(parameter);
        }
        let known = PARAMETERS.iter().map(Parameter::environment);
        let nearest = nearest(name, known.chain(reserved().map(|other| (*other).to_owned())));
        match edits(name, &nearest) * CHARACTERS_PER_MISTAKE <= rest.chars().count() {
            true => Self::NearMiss(nearest),
            false => Self::Stray,
        }
    }
}

impl Settings {
    /// The settings of this process; `assignments` are those of the command line.
    pub fn load(assignments: impl IntoIterator<Item = String>) -> Result<Self, SettingsError> {
        Self::from_sources(&Sources::of_process(assignments)?)
    }

    /// The settings that `sources` give: default, then file, then environment, then assignments.
    pub fn from_sources(sources: &Sources) -> Result<Self, SettingsError> {
        let mut settings = Self::default();
        if let Some((path, content)) = &sources.file {
            for (name, text) in of_file(path, content)? {
                settings.set_from(Origin::File(path.clone()), &name, &text)?;
            }
        }
        for (variable, text) in &sources.environment {
            settings.apply_variable(variable, text)?;
        }
        for assignment in &sources.assignments {
            settings.assign(assignment)?;
        }
        Ok(settings)
    }

    /// Sets one parameter from `name=value`.
    pub fn assign(&mut self, assignment: &str) -> Result<(), SettingsError> {
        let not_an_assignment = || SettingsError::NotAnAssignment { argument: assignment.to_owned() };
        let (name, text) = assignment.split_once('=').ok_or_else(not_an_assignment)?;
        self.set_from(Origin::Argument, name.trim(), text)
    }

    /// Every parameter with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Parameter, super::Value)> + '_ {
        PARAMETERS.iter().map(|parameter| (parameter, parameter.value(self)))
    }

    fn apply_variable(&mut self, variable: &OsString, text: &OsString) -> Result<(), SettingsError> {
        let name = variable.to_string_lossy();
        let parameter = match Variable::named(&name) {
            Variable::Parameter(parameter) => parameter,
            Variable::Others | Variable::Stray => return Ok(()),
            Variable::NearMiss(nearest) => {
                let (origin, name) = (Origin::Environment, name.into_owned());
                return Err(SettingsError::Unknown { origin, name, nearest });
            }
        };
        match text.to_str() {
            Some(text) => self.set_parameter(parameter, Origin::Environment, &name, text),
            None => Err(SettingsError::NotText { variable: name.into_owned() }),
        }
    }

    fn set_from(&mut self, origin: Origin, name: &str, text: &str) -> Result<(), SettingsError> {
        match PARAMETERS.iter().find(|parameter| parameter.name == name) {
            Some(parameter) => self.set_parameter(parameter, origin, name, text),
            None => {
                let nearest = nearest(name, PARAMETERS.iter().map(|parameter| parameter.name)).to_owned();
                Err(SettingsError::Unknown { origin, name: name.to_owned(), nearest })
            }
        }
    }

    /// `name` is the parameter as it was written: with dots, or as an environment variable.
    fn set_parameter(
        &mut self,
        parameter: &'static Parameter,
        origin: Origin,
        name: &str,
        text: &str,
    ) -> Result<(), SettingsError> {
        let domain = &parameter.domain;
        let (name, text) = (name.to_owned(), text.trim().to_owned());
        match domain.parse(&text) {
            Ok(value) => {
                (parameter.set)(self, value);
                Ok(())
            }
            Err(Invalid::OutOfRange { nearest }) => {
                Err(SettingsError::OutOfRange { origin, name, text, nearest })
            }
            Err(Invalid::NotPowerOfTwo { nearest }) => {
                Err(SettingsError::NotPowerOfTwo { origin, name, text, nearest })
            }
            Err(Invalid::NotAChoice { nearest }) => {
                Err(SettingsError::NotAChoice { origin, name, text, domain, nearest })
            }
            Err(Invalid::WrongKind) => {
                Err(SettingsError::WrongKind { origin, name, text, domain, default: parameter.default })
            }
        }
    }
}

fn read_file(path: PathBuf) -> Result<(PathBuf, String), SettingsError> {
    match std::fs::read_to_string(&path) {
        Ok(content) => Ok((path, content)),
        Err(error) => Err(SettingsError::FileUnreadable { path, reason: error.to_string() }),
    }
}
