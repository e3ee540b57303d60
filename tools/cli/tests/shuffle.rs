//! Collective operations between processes and on a simulated fabric.

mod common;

use common::records;
use serde_json::Value;

#[test]
fn processes_shuffle_over_every_real_transport() {
    let records = records(&[
        "shuffle",
        "--nodes=3",
        "--sizes=0,9000",
        "--chunk=4000",
        "--ops=5",
        "--warmup=1",
        "--transport=ring+shm,basic+udp,homa+udp",
        "--json=-",
    ]);
    let medians: Vec<_> = records.iter().filter(|record| record["statistic"] == "p50").collect();
    let times = medians.iter().filter(|record| record["unit"] == "ns");
    assert_eq!(times.clone().count(), 3 * 2, "{records:#?}");
    assert!(times.clone().all(|record| record["samples"] == 5 && record["value"].as_f64() > Some(0.0)));
}

#[test]
fn ways_to_push_are_compared_on_one_simulated_fabric() {
    let arguments = [
        "shuffle",
        "--nodes=20",
        "--sizes=1000",
        "--ops=10",
        "--launches=5",
        "--push=deterministic,random",
        "--fabric=omni-path-100",
        "--json=-",
    ];
    let (first, second) = (records(&arguments), records(&arguments));
    assert_eq!(first, second, "the same seed gives the same records");
    let named = |name: &str| {
        let of_name = |record: &&Value| record["name"].as_str().is_some_and(|text| text.ends_with(name));
        first.iter().filter(of_name).collect::<Vec<_>>()
    };
    let ratios = named(".timeToFirst");
    assert_eq!((ratios.len(), &ratios[0]["push"]), (1, &Value::from("random")));
    assert!(named(".p50").iter().all(|record| record["p50_interval_ns"].is_array()), "{first:#?}");
}

#[test]
fn every_collective_operation_runs_on_a_simulated_fabric_at_all_lengths() {
    // Without checksums only a part of each packet is carried there, from some 200 bytes on.
    let collective = "broadcast,gather,all-gather,point-to-point,bandwidth,two-way-bandwidth,shuffle";
    for collective in collective.split(',') {
        let collective = format!("--collective={collective}");
        let transports = "--transport=basic+sim,homa+sim,ring+sim";
        let sizes = "--sizes=0,100,250,1000,16000";
        let arguments = ["shuffle", "--nodes=4", &collective, transports, sizes, "--ops=3", "--warmup=1"];
        let records = records(&[&arguments[..], &["--launches=1", "--json=-"]].concat());
        let medians = records.iter().filter(|record| record["statistic"] == "p50" && record["unit"] == "ns");
        assert_eq!(medians.count(), 3 * 5, "{collective}: {records:#?}");
    }
}
