//! `farcall key`: the file with the keys of a cluster.

use std::io::{self, Write};

use crate::arguments::Key;
use crate::failure::Failure;

/// Makes a key, or names those that are there.
pub fn run(key: &Key) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match key {
        Key::Generate { file } => {
            let made = farcall::create_key_file(file).map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => Failure::Run(format!(
                    "{} is there already: name another file, and add its line to this one to exchange the key",
                    file.display()
                )),
                _ => Failure::Run(format!("cannot write {}: {error}", file.display())),
            })?;
            writeln!(out, "key {made}").map_err(Failure::output)
        }
        Key::Show { file } => {
            let names = farcall::names_of_keys(file).map_err(Failure::run)?;
            for (place, name) in names.iter().enumerate() {
                let use_of_it = if place == 0 { "used" } else { "believed" };
                writeln!(out, "key {name}, {use_of_it}").map_err(Failure::output)?;
            }
            Ok(())
        }
    }
}
