//! `farcall key`: the file with the keys of a cluster, and that with the private key of a process.

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
        Key::Generate { file, identity: false, json } => {
            let mut report = Report::open(json.as_ref())?;
            let name = farcall::create_key_file(file).map_err(|error| not_made(file, &error))?;
            report.line(format_args!("key {name}"))?;
            report.object(&json!({ "schema": SCHEMA, "kind": "generated", "key": name }))
        }
        Key::Generate { file, identity: true, json } => {
            let mut report = Report::open(json.as_ref())?;
            let public = farcall::create_identity_file(file).map_err(|error| not_made(file, &error))?;
            report.line(format_args!("public {public}"))?;
            let public = public.to_string();
            report.object(&json!({ "schema": SCHEMA, "kind": "identity-generated", "public": public }))
        }
        Key::Show { file, json } => {
            let mut report = Report::open(json.as_ref())?;
            // A file that is neither is reported as one of cluster keys.
            match farcall::public_key_of(file) {
                Ok(public) => {
                    report.line(format_args!("public {public}"))?;
                    let public = public.to_string();
                    report.object(&json!({ "schema": SCHEMA, "kind": "identity", "public": public }))
                }
                Err(_) => show_cluster_keys(file, &mut report),
            }
        }
    }
}

fn show_cluster_keys(file: &Path, report: &mut Report) -> Result<(), Failure> {
    let names = farcall::names_of_keys(file).map_err(Failure::run)?;
    for (place, name) in names.iter().enumerate() {
        let use_of_it = if place == 0 { "used" } else { "believed" };
        report.line(format_args!("key {name}, {use_of_it}"))?;
    }
    report.object(&json!({ "schema": SCHEMA, "kind": "keys", "keys": names }))
}

fn not_made(file: &Path, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::Run(format!(
            "{} is there already: name another file, and add its line to this one to exchange the key",
            file.display()
        )),
        _ => Failure::Run(format!("cannot write {}: {error}", file.display())),
    }
}
