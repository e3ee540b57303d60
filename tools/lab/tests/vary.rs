//! `--vary` on a simulated fabric: a factor that must matter is found and one that cannot matter is called
//! inert, whatever the seed.

use core::time::Duration;

use farcall::TransportKind;
use farcall::parameters::Settings;
use farcall::simulated::Profile;
use farcall_lab::explain::vary::{Analysis, Better, Design, Experiment, Factor, Subject, Verdict};
use farcall_lab::run::closed_loop::ClosedLoop;
use farcall_lab::run::echo::EchoTest;
use farcall_lab::run::exchange::{Buffers, Instruments};
use farcall_lab::run::simulation::{SimulatedFabric, SimulationError, UNCHECKED};
use farcall_lab::units::Size;

/// How often everything is repeated, with other seeds.
const REPEATS: u64 = 20;

const SIZE: Size = Size(10 << 10);

/// Median round trips of a call with these assignments.
fn measure(assignments: &[String], seed: u64) -> Result<f64, SimulationError> {
    let (of_fabric, own): (Vec<&String>, Vec<&String>) =
        assignments.iter().partition(|assignment| assignment.starts_with("fabric."));
    let fields: Vec<&str> = of_fabric.iter().filter_map(|field| field.strip_prefix("fabric.")).collect();
    let profile = Profile::load_with("connectx2-qdr", &fields)?;
    let assignments: Vec<String> =
        UNCHECKED.map(str::to_owned).into_iter().chain(own.into_iter().cloned()).collect();
    let settings = Settings::load(assignments.iter().cloned()).expect("the assignments are valid");
    let test = EchoTest {
        settings,
        buffers: Buffers::Copied,
        closed_loop: ClosedLoop {
            assignments,
            calls: 20,
            lasting: Duration::from_secs(1),
            warmup_calls: 0,
            in_flight: 1,
            clients: 1,
            servers: 1,
            seed,
            instruments: Instruments::default(),
        },
    };
    let echo = test.simulate(&SimulatedFabric::new(profile, seed), TransportKind::BASIC_SIM, SIZE)?;
    Ok(echo.latency.p50_nanos.expect("there are enough calls") as f64)
}

/// Runs both factors in five blocks of their own seeds, and analyses what was found.
fn analyse(texts: [&str; 2], seed: u64) -> Analysis {
    let settings = Settings::default();
    let factors = texts.map(|text| Factor::parse(text, &settings).expect("a factor"));
    let design = Design::new(factors.len());
    let run = |run: usize, seed| {
        let levels = factors.iter().zip(&design.runs()[run]).map(|(factor, &second)| factor.level(second));
        let assignments: Vec<String> = levels.filter_map(|level| level.assignment.clone()).collect();
        measure(&assignments, seed)
    };
    let experiment = Experiment { blocks: 5, seed };
    let blocks = experiment.run(&design, || Ok(0.0), run).expect("the fabric can be simulated");
    let figures: Vec<Vec<f64>> = blocks.kept.into_iter().map(|block| block.found).collect();
    Analysis::of(&design, &figures, Better::Less).expect("positive figures")
}

fn verdicts(analysis: &Analysis) -> [Verdict; 3] {
    [Subject::Factor(0), Subject::Factor(1), Subject::Pairs(vec![(0, 1)])]
        .map(|subject| analysis.effect(&subject).expect("it is estimated").verdict)
}

#[test]
fn links_matter_and_what_another_protocol_reads_is_inert_in_every_repeat() {
    for repeat in 0..REPEATS {
        let analysis = analyse(["fabric.link.gbps=16/64", "homa.overcommit=2/8"], 1000 + repeat);
        let expected = [Verdict::Better, Verdict::Inert, Verdict::Inert];
        assert_eq!(verdicts(&analysis), expected, "seed {}: {analysis:?}", 1000 + repeat);
    }
}

#[test]
fn a_parameter_that_costs_round_trips_is_found_beside_one_that_does_not() {
    // What is longer than the unscheduled bytes waits for a grant.
    let analysis = analyse(["basic.rtt_bytes=16K/2K", "homa.overcommit=2/8"], 3);
    assert_eq!(verdicts(&analysis)[..2], [Verdict::Worse, Verdict::Inert], "{analysis:?}");
}
