//! The embedded profiles against published figures, with the simplest program that there is: an echo without
//! a protocol.
//!
//! What a protocol adds is not in here, so these are checks of the profiles' orders and proportions. The
//! tolerances say how well they meet.

mod common;

use std::sync::{Arc, Mutex};

use common::echo::{Client, Server};
use farcall_sim::{Fabric, Outcome, Profile, Simulation};

/// Nanoseconds from a request of 30 bytes to the last of `bytes` bytes of answer, with `window` such calls in
/// flight.
fn echo_ns(profile: &str, overrides: &[&str], bytes: usize, window: usize) -> f64 {
    const CALLS: usize = 200;
    let profile = Profile::load_with(profile, overrides).unwrap_or_else(|error| panic!("{error}"));
    let fabric = Fabric::new(profile, 1, 2).unwrap_or_else(|error| panic!("{error}"));
    let mut simulation = Simulation::new(fabric);
    let times = Arc::new(Mutex::new(Vec::new()));
    let seen = times.clone();
    simulation.start(0, move |host| Box::new(Client::new(host, 1, bytes, window, CALLS, seen.clone())));
    simulation.start(1, |host| Box::new(Server::new(host)));
    assert_eq!(simulation.run_while(|| true), Outcome::Quiet);
    let mut times = times.lock().expect("no panic").clone();
    assert_eq!(times.len(), CALLS);
    times.sort_unstable();
    times[CALLS / 2] as f64
}

/// A simulated figure, the published one, and how far apart they may be.
struct Row {
    what: String,
    simulated: f64,
    published: f64,
    tolerance: f64,
}

/// Prints all rows, and fails when any is off.
fn compare(rows: &[Row]) {
    let error = |row: &Row| row.simulated / row.published - 1.0;
    for row in rows {
        let Row { what, simulated, published, .. } = row;
        println!("{what}: {simulated:.2} simulated, {published} published, {:+.1} %", error(row) * 100.0);
    }
    let off = rows.iter().filter(|row| error(row).abs() > row.tolerance).map(|row| &row.what);
    assert_eq!(off.collect::<Vec<_>>(), Vec::<&String>::new(), "these are off by more than is tolerated");
}

#[test]
fn clusterperfs_echo_on_connectx2() {
    let sizes = [
        (100, 3.9, 0.05),
        (1024, 5.1, 0.05),
        (10_240, 9.4, 0.15),
        (102_400, 38.9, 0.1),
        (1 << 20, 338.6, 0.03),
    ];
    let echo = |(bytes, published, tolerance)| Row {
        what: format!("echo{bytes}, us"),
        simulated: echo_ns("connectx2-qdr", &[], bytes, 1) / 1e3,
        published,
        tolerance,
    };
    let mut rows: Vec<_> = sizes.into_iter().map(echo).collect();
    let slower = echo_ns("connectx2-qdr", &["nic.dma_read_bytes=512"], 1 << 20, 1);
    let what = "echoBw1M with MaxReadReq 512, GiB/s".to_owned();
    rows.push(Row { what, simulated: 1e9 / slower / 1024.0, published: 2.760, tolerance: 0.05 });
    compare(&rows);
}

#[test]
fn benchkvs_sweep_on_connectx7() {
    let call_us = |window| echo_ns("connectx7-ndr", &[], 64, window) / 1e3;
    // Each side sends requests and answers in the published runs, so its ceiling is half of one direction's.
    let window = 32;
    let ceiling = window as f64 / call_us(window) / 2.0;
    compare(&[
        Row { what: "one call, us".into(), simulated: call_us(1), published: 4.2, tolerance: 0.05 },
        Row { what: "ceiling, M calls/s".into(), simulated: ceiling, published: 1.05, tolerance: 0.05 },
    ]);
}
