//! What is found where libfabric is there and has nothing.

use std::env::{current_exe, var};
use std::process::Command;

use farcall_ofi::libfabric::{OfiError, Wanted, api, found};

const NAME: &str = "nothing_is_found_where_no_provider_is";
/// libfabric reads its variables once, so that a process of its own looks with another value.
const NO_PROVIDER: (&str, &str) = ("FI_PROVIDER", "none-of-that-name");

#[test]
fn nothing_is_found_where_no_provider_is() {
    if let Err(why) = api() {
        return println!("unsupported: {why}");
    }
    if var(NO_PROVIDER.0).as_deref() != Ok(NO_PROVIDER.1) {
        let mut itself = Command::new(current_exe().expect("a test is a program"));
        let run = itself.args(["--exact", NAME]).env(NO_PROVIDER.0, NO_PROVIDER.1).output();
        let run = run.expect("a program that runs now can be run again");
        return assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
    }
    let what = |wanted| found(wanted).map_err(|error| error.to_string());
    let nothing = |what| Err(OfiError::NothingOffered { what }.to_string());
    assert_eq!(what(Wanted::TaggedMessages), nothing("reliable tagged messages"));
    assert_eq!(what(Wanted::Datagrams), nothing("datagrams"));
}
