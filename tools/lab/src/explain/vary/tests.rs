use core::convert::Infallible;

use super::*;

/// Noise of about one percent, and now and then a block in which everything is slower.
fn noisy(random: &mut Random, slower: f64) -> f64 {
    let sum: f64 = (0..12).map(|_| random.unit() - 0.5).sum();
    (1.0 + 0.01 * sum) * slower
}

/// Blocks of times of two factors, of which the first takes a part off.
fn blocks(count: usize, part: f64, seed: u64) -> Vec<Vec<f64>> {
    let design = Design::new(2);
    let mut random = Random::new(seed);
    (0..count)
        .map(|_| {
            let slower = 1.0 + random.unit();
            let time = |run: &Vec<bool>| if run[0] { 100.0 * (1.0 - part) } else { 100.0 };
            design.runs().iter().map(|run| time(run) * noisy(&mut random, slower)).collect()
        })
        .collect()
}

fn verdict(blocks: &[Vec<f64>], subject: &Subject) -> Verdict {
    let analysis = Analysis::of(&Design::new(2), blocks, Better::Less).expect("positive figures");
    analysis.effect(subject).expect("it is estimated").verdict
}

#[test]
fn a_factor_that_matters_is_found_and_has_its_size() {
    let blocks = blocks(8, 0.05, 3);
    assert_eq!(verdict(&blocks, &Subject::Factor(0)), Verdict::Better);
    assert_eq!(verdict(&blocks, &Subject::LeftOut(0)), Verdict::Worse);
    let analysis = Analysis::of(&Design::new(2), &blocks, Better::Less).expect("positive figures");
    let effect = analysis.effect(&Subject::Factor(0)).expect("it is estimated");
    let (low, high) = effect.interval.expect("eight blocks");
    assert!(low < 0.95 && 0.95 < high && high - low < 0.03, "{effect:?}");
    let more = Analysis::of(&Design::new(2), &blocks, Better::More).expect("positive figures");
    assert_eq!(more.effect(&Subject::Factor(0)).map(|effect| effect.verdict), Some(Verdict::Worse));
}

#[test]
fn false_alarms_are_as_rare_as_promised() {
    let alarms = (0..400)
        .filter(|&seed| {
            let blocks = blocks(8, 0.0, seed);
            let analysis = Analysis::of(&Design::new(2), &blocks, Better::Less).expect("positive figures");
            let alarm = |effect: &Effect| matches!(effect.verdict, Verdict::Better | Verdict::Worse);
            analysis.effects[..3].iter().any(alarm)
        })
        .count();
    assert!(alarms <= 20, "{alarms} of 400 analyses without any effect found one");
}

#[test]
fn intervals_hold_the_truth_about_as_often_as_they_say() {
    let held = (0..400)
        .filter(|&seed| {
            let blocks = blocks(8, 0.0, seed);
            let analysis = Analysis::of(&Design::new(2), &blocks, Better::Less).expect("positive figures");
            let (low, high) = analysis.effects[1].interval.expect("eight blocks");
            (low..=high).contains(&1.0)
        })
        .count();
    assert!((365..400).contains(&held), "{held} of 400 intervals of 95 %");
}

#[test]
fn without_noise_nothing_is_inert_and_something_is_not() {
    let exact =
        |time: fn(&Vec<bool>) -> f64| vec![Design::new(2).runs().iter().map(time).collect::<Vec<_>>(); 3];
    let slower = exact(|run| if run[0] { 120.0 } else { 100.0 });
    assert_eq!(verdict(&slower, &Subject::Factor(0)), Verdict::Worse);
    assert_eq!(verdict(&slower, &Subject::Factor(1)), Verdict::Inert);
    assert_eq!(verdict(&slower, &Subject::Pairs(vec![(0, 1)])), Verdict::Inert);
    let only_together = exact(|run| if run[0] && run[1] { 80.0 } else { 100.0 });
    assert_eq!(verdict(&only_together, &Subject::Pairs(vec![(0, 1)])), Verdict::Better);
    assert_eq!(verdict(&only_together, &Subject::AddedIn(0)), Verdict::Inert);
    assert_eq!(verdict(&only_together, &Subject::LeftOut(0)), Verdict::Worse);
}

#[test]
fn one_block_decides_nothing() {
    let analysis = Analysis::of(&Design::new(2), &blocks(1, 0.5, 1), Better::Less).expect("positive figures");
    for effect in &analysis.effects {
        assert_eq!((effect.verdict, effect.interval), (Verdict::Undecided, None));
    }
    assert_eq!(Analysis::of(&Design::new(2), &[], Better::Less), None);
    assert_eq!(Analysis::of(&Design::new(1), &[vec![0.0, 1.0]], Better::Less), None);
}

#[test]
fn guards_are_read_and_judged() {
    let guard: Guard = "echo1M:p50=1%".parse().expect("a guard");
    assert_eq!((guard.to_string().as_str(), guard.part), ("echo1M:p50=1%", 0.01));
    for text in
        ["", "echo1M", "echo1M:p50", "echo1M:p50=1", "echo1M=1%", ":p50=1%", "echo1M:p50=-1%", "a:b=nan%"]
    {
        assert!(text.parse::<Guard>().is_err(), "{text}");
    }
    let judge = |part: f64, better| {
        let design = Design::new(2);
        let analysis = Analysis::of(&design, &blocks(8, part, 5), better).expect("positive figures");
        guard.judge(analysis.effect(&Subject::Factor(0)).expect("it is estimated"), better)
    };
    assert_eq!(judge(0.05, Better::Less), GuardVerdict::Kept);
    assert_eq!(judge(-0.05, Better::Less), GuardVerdict::Broken);
    assert_eq!(judge(-0.01, Better::Less), GuardVerdict::Undecided);
    assert_eq!(judge(0.05, Better::More), GuardVerdict::Broken);
}

#[test]
fn every_block_runs_the_whole_design_and_every_run_has_its_own_seed() {
    let design = Design::new(2);
    let experiment = Experiment { blocks: 5, seed: 7 };
    let mut seeds = Vec::new();
    let measure = |run, seed| {
        seeds.push(seed);
        Ok::<_, Infallible>(run)
    };
    let Ok(blocks) = experiment.run(&design, || Ok(100.0), measure);
    assert_eq!(blocks.kept.len(), 5);
    assert!(blocks.kept.iter().all(|block| block.found == [0, 1, 2, 3]), "in the order of the design");
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!(seeds.len(), 20);
}
