//! Who waits for whom: calls that are not answered, from process to process, and whether they come back to
//! where they began.

use farcall_lab::explain::analysis::finding::{Finding, Section};

/// What an endpoint waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct Wait {
    /// The endpoint.
    pub endpoint: String,
    /// The life of the process that it waits for.
    pub on: u64,
    /// The service that it called.
    pub service: u64,
    /// How long nothing has been answered.
    pub seconds: f64,
}

/// A process as far as its counters show what it waits for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Party {
    /// Its number.
    pub pid: u32,
    /// Its lives' numbers.
    pub incarnations: Vec<u64>,
    /// Its calls that are not answered.
    pub waits: Vec<Wait>,
    /// The services whose handlers run.
    pub handlers: Vec<u64>,
}

impl Party {
    /// What it is in, in words.
    fn is_in(&self) -> String {
        match &*self.handlers {
            [] => String::new(),
            [service] => format!(", in its handler of service {service}"),
            several => {
                let services: Vec<_> = several.iter().map(u64::to_string).collect();
                format!(", in its handlers of services {}", services.join(", "))
            }
        }
    }
}

/// The circles first, then every other wait.
pub fn findings(parties: &[Party]) -> Vec<Finding> {
    let circles = circles(parties);
    let mut found: Vec<_> = circles.iter().map(|circle| deadlock(parties, circle)).collect();
    let in_circle = |at: usize| circles.iter().any(|circle| circle.iter().any(|(party, _)| *party == at));
    for (at, party) in parties.iter().enumerate().filter(|(at, _)| !in_circle(*at)) {
        found.extend(party.waits.iter().map(|wait| waits(parties, &parties[at], wait)));
    }
    found
}

fn party_of(parties: &[Party], incarnation: u64) -> Option<usize> {
    parties.iter().position(|party| party.incarnations.contains(&incarnation))
}

/// Every circle of processes that wait for each other, as the number of each and of its wait.
fn circles(parties: &[Party]) -> Vec<Vec<(usize, usize)>> {
    let mut circles = Vec::new();
    for start in 0..parties.len() {
        let mut way = Vec::new();
        follow(parties, start, start, &mut way, &mut circles);
    }
    circles
}

/// Follows all waits from `at`. A circle is found once: from the first of its processes.
fn follow(
    parties: &[Party],
    start: usize,
    at: usize,
    way: &mut Vec<(usize, usize)>,
    circles: &mut Vec<Vec<(usize, usize)>>,
) {
    for (number, wait) in parties[at].waits.iter().enumerate() {
        let Some(next) = party_of(parties, wait.on) else { continue };
        way.push((at, number));
        if next == start {
            circles.push(way.clone());
        } else if next > start && way.iter().all(|(party, _)| *party != next) {
            follow(parties, start, next, way, circles);
        }
        way.pop();
    }
}

fn deadlock(parties: &[Party], circle: &[(usize, usize)]) -> Finding {
    let step = |(party, wait): &(usize, usize)| {
        let (party, wait) = (&parties[*party], &parties[*party].waits[*wait]);
        let on = party_of(parties, wait.on).map_or(0, |next| parties[next].pid);
        format!(
            "{}{} waits for the answer of {on} to a call of service {} (endpoint {}, {:.1} s)",
            party.pid,
            party.is_in(),
            wait.service,
            wait.endpoint,
            wait.seconds
        )
    };
    let steps: Vec<_> = circle.iter().map(step).collect();
    let sentence = format!(
        "a deadlock of {} processes, each of which waits for the next: {}; one of these handlers must answer first, or call \
         without waiting",
        circle.len(),
        steps.join("; ")
    );
    let about = circle.iter().map(|(party, _)| parties[*party].pid.to_string()).collect::<Vec<_>>();
    let figures = [("rank", 1.0), ("processes", circle.len() as f64)];
    Finding::new(Section::Hypothesis, "deadlock", about.join(" → "), sentence).with(figures)
}

fn waits(parties: &[Party], party: &Party, wait: &Wait) -> Finding {
    let whom = match party_of(parties, wait.on).map(|at| &parties[at]) {
        Some(other) if other.waits.is_empty() => {
            format!("{}{}, which waits for nothing", other.pid, other.is_in())
        }
        Some(other) => format!("{}{}", other.pid, other.is_in()),
        None => "a process that was not given".to_owned(),
    };
    let sentence = format!(
        "endpoint {} has had no answer for {:.1} s; its oldest call is of service {} of {whom}",
        wait.endpoint, wait.seconds, wait.service
    );
    Finding::new(Section::Hypothesis, "waits", party.pid.to_string(), sentence)
        .with([("seconds", wait.seconds)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn party(pid: u32, on: Option<u64>) -> Party {
        let wait = |on| Wait { endpoint: "ring+shm#1".to_owned(), on, service: 7, seconds: 2.0 };
        Party {
            pid,
            incarnations: vec![u64::from(pid)],
            waits: on.map(wait).into_iter().collect(),
            handlers: on.map(|_| 7).into_iter().collect(),
        }
    }

    #[test]
    fn a_circle_is_found_once_whatever_else_waits_for_it() {
        let found = findings(&[party(4, Some(2)), party(1, Some(2)), party(2, Some(3)), party(3, Some(1))]);
        let rules: Vec<_> = found.iter().map(|finding| finding.rule).collect();
        assert_eq!(rules, ["deadlock", "waits"]);
        let said = &found[0].sentence;
        assert!(said.contains("1, in its handler of service 7 waits for the answer of 2"), "{said}");
        assert_eq!(found[0].figure("processes"), Some(3.0));
    }

    #[test]
    fn a_chain_is_no_circle() {
        let found = findings(&[party(1, Some(2)), party(2, None), party(3, Some(9))]);
        assert!(found.iter().all(|finding| finding.rule == "waits"), "{found:#?}");
        assert!(found[0].sentence.contains("2, which waits for nothing"), "{found:#?}");
        assert!(found[1].sentence.contains("not given"), "{found:#?}");
    }
}
