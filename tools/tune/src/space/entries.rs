//! Spaces as they stand in TOML files, and their way into checked ones.

use farcall::parameters::nearest::nearest;
use farcall::parameters::quantity::parse_duration;
use serde::{Deserialize, Serialize};

use super::grid::{Grid, GridError, LEVELS_MAX};
use super::{
    Condition, Emission, Kind, Level, Parameter, Requirement, Space, SpaceError, Target, Template, Value,
};
use crate::expression::{Expression, Types, parse};

/// `[[parameter]]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ParameterEntry {
    /// Its name in conditions, templates and reports.
    pub name: String,
    /// `integer`, `real`, `size`, `duration`, `boolean`, `ordinal` or `categorical`.
    pub kind: String,
    /// The values to try, as a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<toml::Value>>,
    /// The values to try, as a range such as `1..256 *2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
    /// The program's own default; the first value, if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<toml::Value>,
    /// The environment variable that carries it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// farcall's parameter that it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<String>,
    /// The unit in which a bare number is written for the program, such as `us` or `K`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// How false and true are written for the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub words: Option<[String; 2]>,
    /// When a value of it takes effect; at the launch, unless it says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// When it is in play.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Whether it only exists to be put into templates.
    #[serde(default, rename = "virtual", skip_serializing_if = "core::ops::Not::not")]
    pub is_virtual: bool,
    /// What it does, for the reader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
}

/// When a value of a parameter takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// When the program starts.
    Launch,
    /// When the running program begins a session.
    Session,
    /// With the running program's next message.
    Message,
}

/// `[[require]]`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RequireEntry {
    /// The condition that every row satisfies.
    pub that: String,
}

/// `[[emit]]`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EmitEntry {
    /// The environment variable.
    pub environment: String,
    /// What it is set to.
    pub template: String,
}

impl Space {
    /// Checks entries, and puts them together with the emissions of a command.
    pub fn from_entries(
        parameters: &[ParameterEntry],
        requirements: &[RequireEntry],
        emits: &[EmitEntry],
        command: impl FnOnce(&[&str]) -> Result<Vec<Emission>, SpaceError>,
    ) -> Result<Self, SpaceError> {
        let names: Vec<&str> = parameters.iter().map(|entry| entry.name.as_str()).collect();
        check_names(&names)?;
        let mut checked: Vec<Parameter> = parameters.iter().map(parameter).collect::<Result<_, _>>()?;
        let types: Vec<Types> = checked.iter().map(Parameter::types).collect();
        let expression = |what: String, text: &str| expression(what, text, &names, &types);
        for (parameter, entry) in checked.iter_mut().zip(parameters) {
            if let Some(text) = &entry.when {
                let expression = expression(format!("condition of `{}`", entry.name), text)?;
                parameter.when = Some(Condition { text: text.clone(), expression });
            }
        }
        let requirement = |entry: &RequireEntry| {
            let expression = expression("requirement".to_owned(), &entry.that)?;
            Ok(Requirement { text: entry.that.clone(), expression })
        };
        let requirements = requirements.iter().map(requirement).collect::<Result<_, SpaceError>>()?;
        let mut emissions = own_emissions(parameters);
        for emit in emits {
            let target = Target::Environment(emit.environment.clone());
            emissions.push(Emission { target, template: Template::parse(&emit.template, &names)? });
        }
        check_targets(&emissions)?;
        emissions.extend(command(&names)?);
        check_places(&emissions)?;
        check_scopes(&names, &emissions)?;
        Self::new(checked, requirements, emissions)
    }
}

fn check_names(names: &[&str]) -> Result<(), SpaceError> {
    for (index, name) in names.iter().enumerate() {
        let tail = |character: char| character.is_alphanumeric() || character == '_' || character == '.';
        let valid =
            name.starts_with(|first: char| first.is_alphabetic() || first == '_') && name.chars().all(tail);
        if !valid {
            return Err(SpaceError::Name { name: (*name).to_owned() });
        }
        if names[..index].contains(name) {
            return Err(SpaceError::Duplicate { name: (*name).to_owned() });
        }
    }
    Ok(())
}

fn expression(what: String, text: &str, names: &[&str], types: &[Types]) -> Result<Expression, SpaceError> {
    let expression = parse(text, names).map_err(|error| SpaceError::Expression {
        what: what.clone(),
        text: text.to_owned(),
        error,
    })?;
    let checked = expression.check(&|index| types[index]);
    checked.map_err(|error| SpaceError::Type { what, text: text.to_owned(), error })?;
    Ok(expression)
}

/// What parameters emit by themselves.
fn own_emissions(parameters: &[ParameterEntry]) -> Vec<Emission> {
    let mut emissions = Vec::new();
    for (index, entry) in parameters.iter().enumerate() {
        let environment = entry.environment.clone().map(Target::Environment);
        let told = entry.scope.filter(|scope| *scope != Scope::Launch);
        let told = told.map(|scope| Target::Told { scope, name: entry.name.clone() });
        for target in environment.into_iter().chain(entry.set.clone().map(Target::Setting)).chain(told) {
            emissions.push(Emission { target, template: Template::of_parameter(index) });
        }
    }
    emissions
}

fn check_targets(emissions: &[Emission]) -> Result<(), SpaceError> {
    for (index, emission) in emissions.iter().enumerate() {
        if emissions[..index].iter().any(|other| other.target == emission.target) {
            let (Target::Environment(name) | Target::Setting(name)) = &emission.target else { continue };
            return Err(SpaceError::SetTwice { name: name.clone() });
        }
    }
    Ok(())
}

/// What a row is turned into goes where it says and nowhere else: results are files that shells and programs
/// read, and those of a trial belong into its directory.
fn check_places(emissions: &[Emission]) -> Result<(), SpaceError> {
    let is_word = |name: &str, others: &[char]| {
        let tail = |c: char| c.is_ascii_alphanumeric() || c == '_' || others.contains(&c);
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(tail)
    };
    for emission in emissions {
        match &emission.target {
            Target::Environment(name) if !is_word(name, &[]) => {
                return Err(SpaceError::Variable { name: name.clone() });
            }
            Target::Setting(name) if !is_word(name, &['.']) => {
                return Err(SpaceError::Setting { name: name.clone() });
            }
            Target::Line { file } if !is_file_name(file) => {
                return Err(SpaceError::File { name: file.clone() });
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether it names a file of the trial's directory itself.
fn is_file_name(name: &str) -> bool {
    let mut components = std::path::Path::new(name).components();
    let first = components.next();
    matches!(first, Some(std::path::Component::Normal(part)) if part == name) && components.next().is_none()
}

/// What a running program is told does not reach it in another way as well.
fn check_scopes(names: &[&str], emissions: &[Emission]) -> Result<(), SpaceError> {
    let told = |emission: &&Emission| matches!(emission.target, Target::Told { .. });
    for parameter in emissions.iter().filter(told).flat_map(|emission| emission.template.parameters()) {
        let mut others = emissions.iter().filter(|emission| !told(emission));
        if others.any(|emission| emission.template.parameters().any(|one| one == parameter)) {
            return Err(SpaceError::ToldAndSet { parameter: names[parameter].to_owned() });
        }
    }
    Ok(())
}

/// All kinds by their names in files.
const KINDS: [(&str, Kind); 7] = [
    ("integer", Kind::Integer),
    ("real", Kind::Real),
    ("size", Kind::Size),
    ("duration", Kind::Duration),
    ("boolean", Kind::Boolean),
    ("ordinal", Kind::Ordinal),
    ("categorical", Kind::Categorical),
];

fn parameter(entry: &ParameterEntry) -> Result<Parameter, SpaceError> {
    let name = || entry.name.clone();
    let kind_error = |what: String| SpaceError::Kind { parameter: name(), what };
    let known = KINDS.iter().find(|(word, _)| *word == entry.kind);
    let (_, kind) = known.ok_or_else(|| {
        let nearest = nearest(&entry.kind, KINDS.iter().map(|(word, _)| *word));
        kind_error(format!("there is no kind `{}`; did you mean `{nearest}`?", entry.kind))
    })?;
    let kind = *kind;
    let (values, missed_end) = values(entry, kind)?;
    let writer = Writer::new(entry, kind).map_err(kind_error)?;
    let shown = |value: &Value| kind.show(value);
    for (index, value) in values.iter().enumerate() {
        if values[..index].contains(value) {
            return Err(SpaceError::RepeatedValue { parameter: name(), value: shown(value) });
        }
    }
    let default = match &entry.default {
        None => 0,
        Some(default) => {
            let wanted = read(entry, kind, default)?;
            let found = values.iter().position(|value| *value == wanted);
            found.ok_or_else(|| SpaceError::Default {
                parameter: name(),
                default: shown(&wanted),
                nearest: shown(nearest_value(&wanted, &values)),
            })?
        }
    };
    let level = |value: Value| Level { text: writer.write(&value), value };
    let levels = values.into_iter().map(level).collect();
    Ok(Parameter {
        name: name(),
        kind,
        levels,
        default,
        is_virtual: entry.is_virtual,
        when: None,
        missed_end,
    })
}

/// The value closest to a number, or the first one.
pub(crate) fn nearest_value<'a>(wanted: &Value, values: &'a [Value]) -> &'a Value {
    let distance = |value: &Value| match (wanted, value) {
        (Value::Number(wanted), Value::Number(number)) => (wanted - number).abs(),
        _ => f64::MAX,
    };
    values.iter().min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or(&values[0])
}

fn values(entry: &ParameterEntry, kind: Kind) -> Result<(Vec<Value>, Option<f64>), SpaceError> {
    let name = || entry.name.clone();
    match (&entry.values, &entry.range) {
        (Some(values), None) if values.is_empty() => Err(SpaceError::NoValues { parameter: name() }),
        (Some(values), None) if values.len() > LEVELS_MAX => {
            let error = GridError::TooLong { text: format!("{} values", values.len()) };
            Err(SpaceError::Grid { parameter: name(), error })
        }
        (Some(values), None) => {
            let values: Result<_, _> = values.iter().map(|value| read(entry, kind, value)).collect();
            Ok((values?, None))
        }
        (None, Some(range)) => {
            if matches!(kind, Kind::Boolean | Kind::Ordinal | Kind::Categorical) {
                let what = format!("a {} parameter has no range; list its `values`", entry.kind);
                return Err(SpaceError::Kind { parameter: name(), what });
            }
            let grid = Grid::read(range, kind);
            let grid = grid.map_err(|error| SpaceError::Grid { parameter: name(), error })?;
            Ok((grid.values.into_iter().map(Value::Number).collect(), grid.missed_end))
        }
        (None, None) if kind == Kind::Boolean => Ok((vec![Value::Flag(false), Value::Flag(true)], None)),
        _ => Err(SpaceError::ValuesOrRange { parameter: name() }),
    }
}

fn read(entry: &ParameterEntry, kind: Kind, value: &toml::Value) -> Result<Value, SpaceError> {
    let text = match value {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    kind.read(&text).map_err(|error| SpaceError::Value { parameter: entry.name.clone(), error })
}

/// How the values of a parameter are written for the program.
struct Writer<'a> {
    kind: Kind,
    /// Numbers are written as multiples of this, without a unit.
    unit: Option<f64>,
    words: Option<&'a [String; 2]>,
}

impl<'a> Writer<'a> {
    fn new(entry: &'a ParameterEntry, kind: Kind) -> Result<Self, String> {
        if entry.words.is_some() && kind != Kind::Boolean {
            return Err("`words` are for boolean parameters".to_owned());
        }
        let unit = match (&entry.unit, kind) {
            (None, _) => None,
            (Some(unit), Kind::Size | Kind::Duration) => {
                let one = format!("1{unit}");
                let number = match kind {
                    Kind::Duration => parse_duration(&one).ok().map(|span| span.as_nanos() as f64),
                    _ => Kind::Size.read(&one).ok().and_then(|value| match value {
                        Value::Number(bytes) => Some(bytes),
                        _ => None,
                    }),
                };
                Some(number.ok_or_else(|| format!("`{unit}` is no unit of a {}", entry.kind))?)
            }
            (Some(_), _) => return Err("`unit` is for sizes and durations".to_owned()),
        };
        Ok(Self { kind, unit, words: entry.words.as_ref() })
    }

    fn write(&self, value: &Value) -> String {
        match (value, self.kind) {
            (Value::Number(number), Kind::Duration) if self.unit.is_none() => {
                Kind::Duration.show(&Value::Number(*number))
            }
            (Value::Number(number), _) => (number / self.unit.unwrap_or(1.0)).to_string(),
            (Value::Flag(flag), _) => match self.words {
                Some(words) => words[usize::from(*flag)].clone(),
                None => flag.to_string(),
            },
            (Value::Word(word), _) => word.clone(),
        }
    }
}
