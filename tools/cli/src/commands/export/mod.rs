//! `farcall export`: the counters of all processes of this machine in the text that monitoring systems read.
//!
//! Nothing is asked of the measured processes: their counter files are read from outside, also of those that
//! hang, and kept open, so that what a killed one counted last is still there.

mod exposition;
mod families;
mod watch;

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use crate::arguments::runs::Export;
use crate::failure::Failure;
use crate::http::{Answer, Request, Server};
use crate::notify;
use exposition::{Format, exposition};
use watch::Watch;

/// Serves scrapes until it is ended, or prints once.
///
/// Scrapes come from several threads and share one list of open files: a process is searched for its counter
/// file once, when it is first seen.
pub fn run(export: &Export) -> Result<(), Failure> {
    let watch = Mutex::new(Watch::new(export.remember));
    let text = |format| {
        // A scrape that panicked left a list of files, all of them good.
        let seen = watch.lock().unwrap_or_else(PoisonError::into_inner).look()?;
        Ok(exposition(&seen, format, export.series))
    };
    let Some(listen) = &export.listen else {
        let text: String = text(Format::Plain)?;
        let mut out = io::stdout().lock();
        return out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::output);
    };
    let server = Server::bind(listen)?;
    let address = server.address();
    writeln!(io::stdout(), "counters are served at http://{address}/metrics").map_err(Failure::output)?;
    notify::ready();
    server.serve(&|request: &Request| {
        if request.path != "/metrics" {
            return Answer::not_found("the counters are at /metrics");
        }
        let format = Format::taken_by(&request.accept);
        text(format).map_or_else(
            |failure: Failure| Answer::failed(&failure),
            |text| Answer::good(format.content_type(), text),
        )
    })
}
