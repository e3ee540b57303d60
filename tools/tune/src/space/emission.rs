//! How the levels of a row reach the program.

use super::{Scope, Space, Template};

/// One thing that a row is turned into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emission {
    /// Where it goes.
    pub target: Target,
    /// What goes there. When it mentions a parameter that is not in play, nothing goes there.
    pub template: Template,
}

/// Where an emission goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// An environment variable of this name.
    Environment(String),
    /// A parameter of farcall of this name.
    Setting(String),
    /// The next argument of the command. Arguments of one group are given or left out together.
    Argument {
        /// The group.
        group: usize,
    },
    /// A line to the running program, under this name.
    Told {
        /// Whether it takes effect in a new session or at once.
        scope: Scope,
        /// The parameter.
        name: String,
    },
    /// The next line of a file in the trial's directory.
    Line {
        /// The file's name.
        file: String,
    },
}

/// What a row is turned into, emission by emission.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rendered<'a> {
    /// Where each goes and what goes there, if anything.
    pub parts: Vec<(&'a Target, Option<String>)>,
}

impl Space {
    /// Turns a row into what the program gets; `directory` is the trial's own.
    pub fn render(&self, row: &[u16], directory: &str) -> Rendered<'_> {
        let text = |index: usize| self.level(row, index).map(|level| level.text.as_str());
        let part = |emission| {
            let Emission { target, template }: &Emission = emission;
            (target, template.fill(&text, directory))
        };
        Rendered { parts: self.emissions.iter().map(part).collect() }
    }
}

impl<'a> Rendered<'a> {
    /// The environment variables that are set.
    pub fn environment(&self) -> impl Iterator<Item = (&'a str, &str)> {
        self.parts.iter().filter_map(|(target, text)| match target {
            Target::Environment(name) => Some((name.as_str(), text.as_deref()?)),
            _ => None,
        })
    }

    /// farcall's parameters that are set.
    pub fn settings(&self) -> impl Iterator<Item = (&'a str, &str)> {
        self.parts.iter().filter_map(|(target, text)| match target {
            Target::Setting(name) => Some((name.as_str(), text.as_deref()?)),
            _ => None,
        })
    }

    /// What the running program is told about a scope.
    pub fn told(&self, of: Scope) -> impl Iterator<Item = (&'a str, &str)> {
        self.parts.iter().filter_map(move |(target, text)| match target {
            Target::Told { scope, name } if *scope == of => Some((name.as_str(), text.as_deref()?)),
            _ => None,
        })
    }

    /// What is decided when the program starts: all that it is not told while it runs.
    pub fn launch(&self) -> Vec<(&'a Target, Option<String>)> {
        let parts = self.parts.iter().filter(|(target, _)| !matches!(target, Target::Told { .. }));
        parts.cloned().collect()
    }

    /// The command with its arguments; groups with a parameter that is not in play are left out.
    pub fn arguments(&self) -> Vec<&str> {
        let group_of = |target: &Target| match target {
            Target::Argument { group } => Some(*group),
            _ => None,
        };
        let absent: Vec<usize> = self
            .parts
            .iter()
            .filter(|(_, text)| text.is_none())
            .filter_map(|part| group_of(part.0))
            .collect();
        let present = self.parts.iter().filter_map(|(target, text)| {
            let group = group_of(target)?;
            (!absent.contains(&group)).then_some(text.as_deref()).flatten()
        });
        present.collect()
    }

    /// The files with their contents.
    pub fn files(&self) -> Vec<(&'a str, String)> {
        let mut files: Vec<(&str, String)> = Vec::new();
        for (target, text) in &self.parts {
            let Target::Line { file } = target else { continue };
            if !files.iter().any(|(name, _)| name == file) {
                files.push((file, String::new()));
            }
            let content = files.iter_mut().find(|(name, _)| name == file);
            if let (Some((_, content)), Some(line)) = (content, text) {
                content.push_str(line);
                content.push('\n');
            }
        }
        files
    }
}
