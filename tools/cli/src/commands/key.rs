//! `farcall key`: the file with the keys of a cluster.

use std::io;
use std::path::Path;

use serde_json::json;

use crate::arguments::Key;
use crate::failure::Failure;
use crate::output::Report;

/// The version of the JSON objects of this command.
const SCHEMA: &str = "farcall.key.v1";

/// Makes a key, or names those that are there.
pub fn run(key: &Key) -> Result<(), Failure> {
    match key {
        Key::Generate { file, json } => {
            let mut report = Report::open(json.as_ref())?;
            let name = generate(file)?;
            report.line(format_args!("key {name}"))?;
            report.object(&json!({ "schema": SCHEMA, "kind": "generated", "key": name }))
        }
        Key::Show { file, json } => {
            let mut report = Report::open(json.as_ref())?;
            let names = farcall::names_of_keys(file).map_err(Failure::run)?;
            for (place, name) in names.iter().enumerate() {
                let use_of_it = if place == 0 { "used" } else { "believed" };
                report.line(format_args!("key {name}, {use_of_it}"))?;
            }
            report.object(&json!({ "schema": SCHEMA, "kind": "keys", "keys": names }))
        }
    }
}

fn generate(file: &Path) -> Result<String, Failure> {
    farcall::create_key_file(file).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::Run(format!(
            "{} is there already: name another file, and add its line to this one to exchange the key",
            file.display()
        )),
        _ => Failure::Run(format!("cannot write {}: {error}", file.display())),
    })
}
