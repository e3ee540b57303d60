//! A choice as files that the programs read.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::summary::Choice;

/// A file to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsFile {
    /// Its name.
    pub name: &'static str,
    /// What stands in it.
    pub content: String,
}

/// What Open MPI's variables begin with.
const MCA_PREFIX: &str = "OMPI_MCA_";

/// What UCX's variables begin with.
const UCX_PREFIX: &str = "UCX_";

/// The files for what a choice sets: environment, Open MPI's parameters, UCX's configuration, farcall's TOML.
pub fn settings_files(choice: &Choice) -> Vec<SettingsFile> {
    let file = |name, content: String| SettingsFile { name, content };
    let assignment = |(name, value): (&str, &str)| format!("{name}={value}\n");
    let mut files = Vec::new();
    if !choice.environment.is_empty() {
        let lines =
            choice.environment.iter().map(|(name, value)| format!("export {name}={}\n", quoted(value)));
        files.push(file("best.env", lines.collect()));
    }
    let with_prefix = |prefix: &'static str| {
        choice
            .environment
            .iter()
            // These files know no value of several lines: the rest of it would be lines of its own.
            .filter(move |(name, value)| name.starts_with(prefix) && !value.contains(['\n', '\r']))
            .map(|(n, v)| (n.as_str(), v.as_str()))
    };
    let mca: String = with_prefix(MCA_PREFIX)
        .map(|(name, value)| format!("{} = {value}\n", name.trim_start_matches(MCA_PREFIX)))
        .collect();
    let ucx: String = with_prefix(UCX_PREFIX).map(assignment).collect();
    for (name, content) in
        [("mca-params.conf", mca), ("ucx.conf", ucx), ("farcall.toml", toml_of(&choice.settings))]
    {
        if !content.is_empty() {
            files.push(file(name, content));
        }
    }
    files
}

/// A word that a shell reads as it stands.
fn quoted(value: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "_-./,:=@%+".contains(character);
    match !value.is_empty() && value.chars().all(plain) {
        true => value.to_owned(),
        false => format!("'{}'", value.replace('\'', r"'\''")),
    }
}

/// `group.name` as tables.
fn toml_of(settings: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    let mut group = "";
    for (name, value) in settings {
        let (table, key) = name.split_once('.').unwrap_or(("", name));
        if table != group {
            let _ = writeln!(text, "[{table}]");
            group = table;
        }
        let _ = writeln!(text, "{key} = {}", toml::Value::String(value.clone()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn each_program_gets_its_own_format() {
        let choice = Choice {
            row: BTreeMap::new(),
            changes: 0,
            samples: 0,
            medians: Vec::new(),
            against_reference: Vec::new(),
            environment: map(&[
                ("OMPI_MCA_btl_x", "4096"),
                ("UCX_TLS", "sysv,self"),
                ("OTHER", "it's two"),
                ("UCX_X", "1\nUCX_TLS=tcp"),
            ]),
            settings: map(&[
                ("ring.batch_bytes", "512"),
                ("ring.ring_bytes", "65536"),
                ("shm.block_bytes", "8388608"),
            ]),
        };
        let files = settings_files(&choice);
        let content = |name| files.iter().find(|file| file.name == name).map(|file| file.content.as_str());
        assert_eq!(
            content("best.env"),
            Some(
                "export OMPI_MCA_btl_x=4096\nexport OTHER='it'\\''s two'\nexport UCX_TLS=sysv,self\nexport UCX_X='1\nUCX_TLS=tcp'\n"
            )
        );
        assert_eq!(content("mca-params.conf"), Some("btl_x = 4096\n"));
        assert_eq!(content("ucx.conf"), Some("UCX_TLS=sysv,self\n"));
        assert_eq!(
            content("farcall.toml"),
            Some("[ring]\nbatch_bytes = \"512\"\nring_bytes = \"65536\"\n[shm]\nblock_bytes = \"8388608\"\n")
        );
    }
}
