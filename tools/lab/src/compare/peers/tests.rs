//! The parsers, on what the programs printed on a machine with Debian 12.

use core::sync::atomic::AtomicBool;

use super::arm::Arm;
use super::*;
use crate::run::bench::{Bench, BenchError};
use crate::units::Size;

fn near(value: f64, expected: f64) -> bool {
    (value / expected - 1.0).abs() < 1e-3
}

#[test]
fn ucx_prints_half_the_median_round_trip() {
    let figure = ucx::read(include_str!("../../../data/peers/ucx_perftest.txt")).expect("a figure");
    assert!(near(figure.value, 1452.0) && figure.step == 2.0, "{figure:?}");
    let figure = ucx::read(include_str!("../../../data/peers/ucx_perftest-long.txt")).expect("a figure");
    assert!(
        near(figure.value, 195_276.0),
        "the line of the whole run, not that of its first second: {figure:?}"
    );
}

#[test]
fn ucx_prints_the_messages_a_second_of_a_stream() {
    let figure =
        ucx::read_stream(include_str!("../../../data/peers/ucx_perftest-stream.txt")).expect("a figure");
    assert!(figure.value > 1e4 && figure.step == 1.0, "{figure:?}");
    assert!(ucx::read_stream("iterations,50.0_percentile_lat\n1,2,3\n").is_err());
}

#[test]
fn netpipe_prints_the_rate_to_more_digits_than_the_time() {
    let open_mpi = include_str!("../../../data/peers/netpipe-openmpi.txt");
    let figure = netpipe::read(open_mpi, 1024).expect("a figure");
    assert!(near(figure.value, 6131.5) && figure.step < 0.1, "{figure:?}");
    assert!(netpipe::read(open_mpi, 8).is_err(), "another size");
    let figure =
        netpipe::read(include_str!("../../../data/peers/netpipe-mpich.txt"), 1024).expect("a figure");
    assert!(near(figure.value, 11_577.6), "{figure:?}");
}

#[test]
fn netpipe_prints_the_rate_of_a_stream() {
    let figure =
        netpipe::read_stream(include_str!("../../../data/peers/netpipe-stream.txt"), 8).expect("a figure");
    assert!(near(figure.value, 8.0709e6) && figure.step < 1.0, "{figure:?}");
}

#[test]
fn oomph_prints_the_rate_of_both_directions_together() {
    let over_mpi = include_str!("../../../data/peers/oomph-mpi.txt");
    let figure = oomph::read(over_mpi, 8).expect("a figure");
    assert!(near(figure.value, 2.0 * 300_000.0 / 0.528254), "as many as its own time says: {figure:?}");
    assert!(figure.step > 0.0 && figure.step < 1e-4 * figure.value, "{figure:?}");
    assert!(oomph::read(over_mpi, 1024).is_err(), "another size");
    let figure = oomph::read(include_str!("../../../data/peers/oomph-ucx.txt"), 8).expect("a figure");
    assert!(near(figure.value, 2.0 * 300_000.0 / 0.462739), "{figure:?}");
}

#[test]
fn oomph_takes_its_time_in_whole_microseconds() {
    let brief = "CSVData, niter, 100, buff_size, 8, inflight, 1, transport, mpi, BW MB/s, 32\n";
    let figure = oomph::read(brief, 8).expect("a figure");
    assert!(near(figure.value, 4e6) && near(figure.step, 4e6 / 50.0), "{figure:?}");
}

#[test]
fn what_oomph_prints_without_its_last_line_or_without_a_rate_is_refused() {
    let text = include_str!("../../../data/peers/oomph-ucx.txt");
    let (before, line) = text.split_once("CSVData").expect("its last line");
    let error = oomph::read(before, 8).expect_err("no figure").to_string();
    assert!(error.starts_with("oomph printed no figure: final MB/s: "), "{error}");
    for (rate, other) in [("BW MB/s, ", "BW MB/s, -"), ("BW MB/s, ", "BW MB/s, nan "), ("niter, ", "count, ")]
    {
        let line = line.replace(rate, other);
        assert!(oomph::read(&format!("CSVData{line}"), 8).is_err(), "{line}");
    }
}

#[test]
fn oomph_is_not_asked_for_more_buffers_than_memory_allows() {
    let core = farcall_limit::Core(0);
    let cores = CorePair { initiator: core, responder: core };
    let check =
        |bytes, in_flight| oomph::check_buffers(Ask { cores, bytes, in_flight, lasting: Duration::ZERO });
    assert_eq!([check(8, 1000), check(100 << 10, 1000), check(1 << 20, 256)], [Ok(()), Ok(()), Ok(())]);
    let error = check(1 << 20, 1000).expect_err("four buffers for each").to_string();
    assert_eq!(error, "oomph failed: its buffers would take 4000 MiB, and may take 1024");
}

#[test]
fn aeron_prints_a_histogram_of_round_trips() {
    let figure = aeron::read(include_str!("../../../data/peers/aeron-ping.txt")).expect("a figure");
    assert!(near(figure.value, 490.0) && figure.step == 1.0, "{figure:?}");
}

#[test]
fn aeron_counts_by_the_second_and_neither_its_start_nor_its_end_is_taken() {
    let text = include_str!("../../../data/peers/aeron-stream.txt");
    let figure = aeron::read_stream(text).expect("a figure");
    let (messages, millis) = (21_890_346.0 + 28_048_433.0, 1047.0 + 1001.0);
    assert!(near(figure.value, 1e3 * messages / millis) && figure.step < 1e-3 * figure.value, "{figure:?}");
    let two: Vec<_> = text.lines().filter(|line| line.starts_with("Duration")).take(2).collect();
    assert!(aeron::read_stream(&two.join("\n")).is_err(), "its start and its end only");
}

#[test]
fn the_newest_jar_is_taken_and_what_is_none_is_passed_over() {
    let folder = std::env::temp_dir().join(format!("farcall-jars-{}", std::process::id()));
    for version in ["1.9.0", "1.44.1", "1.45.0", "resolver"] {
        std::fs::create_dir_all(folder.join(version)).expect("a folder");
    }
    for version in ["1.9.0", "1.44.1"] {
        let jar = folder.join(version).join(format!("aeron-all-{version}.jar"));
        std::fs::write(jar, "").expect("a file");
    }
    let newest = aeron::newest_jar(&folder);
    std::fs::remove_dir_all(&folder).expect("it is ours");
    assert_eq!(newest, Some(folder.join("1.44.1/aeron-all-1.44.1.jar")), "1.45.0 has no jar");
    assert_eq!(aeron::newest_jar(&folder), None);
}

#[test]
fn libfabric_prints_half_the_mean_round_trip_and_a_rate() {
    let figure =
        libfabric::read(include_str!("../../../data/peers/fi_pingpong-shm.txt"), 1024).expect("a figure");
    assert!(near(figure.value, 17_452.0) && figure.step < 20.0, "{figure:?}");
    let figure =
        libfabric::read(include_str!("../../../data/peers/fi_pingpong-tcp.txt"), 100).expect("a figure");
    assert!(near(figure.value, 41_080.0) && figure.step == 20.0, "{figure:?}");
}

#[test]
fn what_is_no_table_is_refused_with_its_last_words() {
    for text in ["", "\n\n", "1,2", "iterations,50.0_percentile_lat,avg_lat\n", "no such device\n"] {
        assert!(ucx::read(text).is_err() && netpipe::read(text, 1024).is_err(), "{text}");
        assert!(libfabric::read(text, 1024).is_err() && netpipe::read_stream(text, 1024).is_err(), "{text}");
        assert!(aeron::read(text).is_err() && aeron::read_stream(text).is_err(), "{text}");
        assert!(oomph::read(text, 1024).is_err(), "{text}");
    }
    let error = ucx::read("some words\nno such device\n").expect_err("no table").to_string();
    assert_eq!(error, "ucx_perftest printed no figure: no such device");
}

#[test]
fn peers_have_names_of_their_own_and_say_what_they_need() {
    let mut names: Vec<_> = PEERS.iter().map(|peer| peer.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), PEERS.len());
    for peer in PEERS {
        assert!(!peer.programs.is_empty(), "{peer:?}");
        let (from, family) = match peer.origin {
            Origin::Debian(packages) => (packages[0], peer.family()),
            Origin::Wheel => (WHEEL, "ucx"),
            Origin::Maven => (JAR, "aeron"),
            Origin::Sources => (SOURCES, "oomph"),
        };
        assert!(peer.source().contains(from) && peer.family() == family, "{peer:?}: {}", peer.source());
    }
}

#[test]
fn long_messages_go_round_less_often() {
    let core = farcall_limit::Core(0);
    let cores = CorePair { initiator: core, responder: core };
    let ask = |bytes| Ask { cores, bytes, in_flight: 1, lasting: Duration::from_millis(100) };
    assert!(ask(8).round_trips(500.0) > 100_000 && ask(1 << 20).round_trips(500.0) < 1000);
    assert_eq!(ask(1 << 30).round_trips(500.0), 100);
}

fn brief_plan(peers: Vec<Peer>, sizes: Vec<Size>, in_flight: Vec<usize>) -> PeerPlan {
    PeerPlan {
        assignments: Vec::new(),
        settings: farcall::parameters::Settings::default(),
        peers,
        sizes,
        in_flight,
        blocks: 1,
        arm_lasting: Duration::from_millis(1),
        seed: 1,
    }
}

#[test]
fn short_and_odd_lengths_have_cells_on_every_path() {
    let bench = Bench::new().expect("the tests have two cores");
    let plan = brief_plan(PEERS.to_vec(), vec![Size(1), Size(8), Size(24), Size(64), Size(100)], vec![16]);
    let cells = plan.cells(&bench).expect("cells");
    let bare = |cell: &CellRun| match cell.arms.iter().find(|arm| !matches!(arm, Arm::Farcall(..))) {
        Some(Arm::ShortStream(_)) => "ring",
        Some(Arm::Stream(_)) => "copies",
        _ => "none",
    };
    let streams: Vec<_> = cells.iter().filter(|cell| cell.path == Path::Stream).map(bare).collect();
    assert_eq!(streams, ["none", "ring", "none", "ring", "copies"]);
}

#[test]
fn streams_have_a_cell_for_each_number_in_flight_and_stores_one_more_for_a_single_request() {
    let bench = Bench::new().expect("the tests have two cores");
    let plan = brief_plan(PEERS.to_vec(), vec![Size(8)], vec![1000, 10, 10]);
    let cells = plan.cells(&bench).expect("cells");
    let windows = |path| -> Vec<usize> {
        cells.iter().filter(|cell| cell.path == path).map(|cell| cell.in_flight).collect()
    };
    assert_eq!(windows(Path::Stream), [10, 1000]);
    assert_eq!(windows(Path::Publication), [10, 1000]);
    assert_eq!(windows(Path::LocalStore), [1, 10, 1000]);
    assert_eq!(windows(Path::Memory), [1]);
}

#[test]
fn a_block_that_is_interrupted_does_not_count() {
    let bench = Bench::new().expect("the tests have two cores");
    let aeron = *PEERS.iter().find(|peer| peer.path == Path::Publication).expect("Aeron's");
    let plan = brief_plan(vec![aeron], vec![Size(8)], vec![10]);
    let mut cell = plan.cells(&bench).expect("cells").remove(0);
    let outcome = cell.block(&bench, &AtomicBool::new(true));
    assert!(matches!(outcome, Err(BenchError::Interrupted)));
    assert_eq!((cell.blocks.kept.len(), cell.blocks.discarded), (0, 0));
    assert!(cell.lines().iter().all(|line| line.outcome == Err("no block was measured".to_owned())));
}

#[test]
fn stores_have_as_many_objects_as_memory_allows() {
    let core = farcall_limit::Core(0);
    let cores = CorePair { initiator: core, responder: core };
    let objects = |bytes| Ask { cores, bytes, in_flight: 1, lasting: Duration::ZERO }.objects();
    assert_eq!([objects(0), objects(1024), objects(1 << 20), objects(1 << 30)], [10_000, 10_000, 256, 16]);
}
