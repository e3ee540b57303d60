//! `farcall serve-report`: recorded runs in a browser, a list and their pages.
//!
//! Runs are read when they are asked for, so that a list is as new as the folder. Nothing outside of it can
//! be named: a run is one of those that were listed.

use core::fmt::Write;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use farcall_lab::explain::page::{escape, page};
use farcall_lab::explain::recorded::RecordedRun;

use crate::arguments::runs::ServeReport;
use crate::failure::Failure;
use crate::http::{Answer, Request, Server};

/// A type of content.
const HTML: &str = "text/html; charset=utf-8";
/// What makes a folder a run.
const RUN: &str = "run.json";
/// The most runs that are listed; the newest ones are.
const RUNS_MAX: usize = 500;

/// Serves until it is ended.
pub fn run(serve: &ServeReport) -> Result<(), Failure> {
    // A folder that cannot be read is said now.
    let count = runs(&serve.folder)?.len();
    let server = Server::bind(&serve.listen)?;
    let folder = serve.folder.display();
    let address = server.address();
    writeln!(io::stdout(), "{count} runs of {folder} are shown at http://{address}/")
        .map_err(Failure::output)?;
    server.serve(&|request: &Request| {
        answer(&serve.folder, request).unwrap_or_else(|failure| Answer::failed(&failure))
    })
}

fn answer(folder: &Path, request: &Request) -> Result<Answer, Failure> {
    let names = runs(folder)?;
    match request.path.as_str() {
        "/" => Ok(Answer::good(HTML, list(folder, &names))),
        "/report" => {
            let asked: Vec<_> =
                request.query.iter().filter(|(name, _)| name == "run").map(|(_, run)| run).collect();
            if asked.is_empty() || asked.iter().any(|run| !names.contains(run)) {
                return Ok(Answer::not_found("there is no such run; the list is at /"));
            }
            let read = |run: &&String| RecordedRun::read(&folder.join(run)).map_err(Failure::run);
            let runs = asked.iter().map(read).collect::<Result<Vec<_>, _>>()?;
            Ok(Answer::good(HTML, page(&runs)))
        }
        _ => Ok(Answer::not_found("the list of runs is at /")),
    }
}

/// The runs in a folder by name, the newest first.
fn runs(folder: &Path) -> Result<Vec<String>, Failure> {
    let listing = fs::read_dir(folder)
        .map_err(|error| Failure::Run(format!("cannot read {}: {error}", folder.display())))?;
    let mut runs: Vec<_> = listing
        .flatten()
        .filter_map(|entry| {
            let made = fs::metadata(entry.path().join(RUN)).and_then(|run| run.modified()).ok()?;
            Some((made, entry.file_name().into_string().ok()?))
        })
        .collect();
    runs.sort_unstable_by(|a, b| b.cmp(a));
    runs.truncate(RUNS_MAX);
    Ok(runs.into_iter().map(|(_, name)| name).collect())
}

fn list(folder: &Path, names: &[String]) -> String {
    let mut rows = String::new();
    for name in names {
        let (what, figures) = match RecordedRun::read(&folder.join(name)) {
            Ok(run) => (format!("farcall {}", run.run.arguments.join(" ")), run.figures.len().to_string()),
            Err(error) => (error.to_string(), String::new()),
        };
        let (plain, name) = (name, escape(name));
        let _ = writeln!(
            rows,
            "<tr><td><input type=\"checkbox\" name=\"run\" value=\"{name}\" aria-label=\"{name}\"></td>\
             <td><a href=\"/report?run={}\">{name}</a></td><td>{}</td><td>{figures}</td></tr>",
            encoded(plain),
            escape(&what)
        );
    }
    let title = escape(&format!("Runs of {}", folder.display()));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\"><title>{title}</title><style>{STYLE}</style></head>\n\
         <body><main><h1>{title}</h1><form action=\"/report\"><table><thead><tr><th></th><th>run</th>\
         <th>command</th><th>figures</th></tr></thead><tbody>\n{rows}</tbody></table>\
         <p><button>Show the chosen side by side</button></p></form></main></body></html>\n"
    )
}

const STYLE: &str = ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;margin:0}\
    main{max-width:72rem;margin:0 auto;padding:1rem}h1{font-size:1.5rem}table{border-collapse:collapse}\
    td,th{border-bottom:1px solid #8888;padding:.25rem .6rem;text-align:left;overflow-wrap:anywhere}\
    button{font:inherit;padding:.4rem 1rem}";

/// A name as it stands in a query.
fn encoded(name: &str) -> String {
    name.bytes().fold(String::new(), |mut text, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' => text.push(byte.into()),
            byte => text += &format!("%{byte:02X}"),
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_runs_of_the_folder_are_shown_and_names_stay_text() {
        let folder = std::env::temp_dir().join(format!("farcall-serve-report-{}", std::process::id()));
        let name = "a <run>&b";
        fs::create_dir_all(folder.join(name)).expect("a new folder");
        fs::write(folder.join(name).join(RUN), "{}").expect("it can be written");
        let ask = |path: &str, run: &str| {
            let query = vec![("run".to_owned(), run.to_owned())];
            answer(&folder, &Request { path: path.to_owned(), query, accept: String::new() })
        };
        let list = ask("/", "").expect("a list").body;
        assert!(list.contains("a &lt;run&gt;&amp;b") && !list.contains("<run>"), "{list}");
        for wrong in ["..", "../x", "b", ""] {
            assert_eq!(ask("/report", wrong).expect("an answer").status, "404 Not Found", "{wrong}");
        }
        assert!(ask("/report", name).is_err(), "it is damaged, which is said");
        fs::remove_dir_all(&folder).expect("it is ours");
    }
}
