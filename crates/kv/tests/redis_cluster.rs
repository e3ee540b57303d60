//! Two shards of a store, each with its front: clients are sent to the one that has the key.

mod redis;

use std::sync::Arc;

use farcall_kv::resp::{Cluster, Options, ServerPlace};
use farcall_kv::store::MEMORY_BYTES_MIN;
use redis::Served;

fn place(address: &str) -> Option<ServerPlace> {
    Some(ServerPlace::parse(address).expect("a host with a port"))
}

/// The fronts of two shards that know each other; the first has slots 0 to 8191.
fn start() -> ([Served; 2], [Arc<Cluster>; 2]) {
    let clusters = [0, 1].map(|own| Arc::new(Cluster::new(own, 2)));
    let served = clusters.each_ref().map(|cluster| {
        let cluster = Some(Arc::clone(cluster));
        Served::with(MEMORY_BYTES_MIN, Options { cluster, ..Options::default() })
    });
    for cluster in &clusters {
        (0..).zip(&served).for_each(|(shard, server)| cluster.set_place(shard, place(&server.address)));
    }
    (served, clusters)
}

#[test]
fn clients_are_sent_to_the_server_that_has_the_key() {
    let ([first, second], clusters) = start();
    let (mut low, mut high) = (first.client(), second.client());
    // The slot of `foo` is 12182, and that of `bar` 5061.
    assert_eq!(low.ask("SET foo 1"), format!("-MOVED 12182 {}", second.address));
    assert_eq!(high.ask("SET foo 1"), "+OK");
    assert_eq!(high.ask("GET bar"), format!("-MOVED 5061 {}", first.address));
    assert_eq!(low.ask("SET bar 2"), "+OK");
    assert_eq!(low.ask("SET other{bar} 3"), "+OK", "what is in braces decides");
    assert_eq!(low.ask("MGET bar other{bar}"), "*2|$1|2|$1|3");
    let crossed = "-CROSSSLOT Keys in request don't hash to the same slot";
    assert_eq!(low.ask("MGET bar foo"), crossed);
    assert_eq!(low.ask("DEL bar hello"), crossed, "both are here, and have two slots");
    assert_eq!(low.ask("ZUNIONSTORE bar 2 foo bar"), crossed);
    assert_eq!(low.ask("EVALSHA 0 1 foo"), format!("-MOVED 12182 {}", second.address));
    assert_eq!(low.ask("BLPOP foo 0"), format!("-MOVED 12182 {}", second.address));
    assert_eq!(low.ask("DBSIZE"), ":2", "what names no key is about this server");
    clusters[0].set_place(1, None);
    assert_eq!(low.ask("GET foo"), "-CLUSTERDOWN Hash slot not served");
    assert!(low.ask("CLUSTER INFO").contains("cluster_state:fail|"));
}

#[test]
fn a_transaction_with_a_key_of_another_server_does_nothing() {
    let ([first, second], _) = start();
    let mut client = first.client();
    assert_eq!(client.ask("MULTI"), "+OK");
    assert_eq!(client.ask("SET bar 1"), "+QUEUED");
    assert_eq!(client.ask("SET foo 1"), format!("-MOVED 12182 {}", second.address));
    assert!(client.ask("EXEC").starts_with("-EXECABORT"));
    assert_eq!(client.ask("EXISTS bar"), ":0");
}

#[test]
fn the_cluster_is_described_alike_by_all_servers() {
    let ([first, second], clusters) = start();
    let (mut low, mut high) = (first.client(), second.client());
    let slots = low.ask("CLUSTER SLOTS");
    assert_eq!(slots, high.ask("CLUSTER SLOTS"));
    let ids = [low.ask("CLUSTER MYID"), high.ask("CLUSTER MYID")];
    for (range, (served, id)) in
        [":0|:8191|", ":8192|:16383|"].iter().zip([(&first, &ids[0]), (&second, &ids[1])])
    {
        let port = served.address.rsplit_once(':').expect("a port").1;
        let entry = format!("*3|{range}*4|$9|127.0.0.1|:{port}|{id}|*0");
        assert!(slots.contains(&entry), "{entry} in {slots}");
    }
    let nodes = high.ask("CLUSTER NODES");
    assert!(
        nodes.contains(&format!("{}@0 myself,master - 0 0 1 connected 8192-16383", second.address)),
        "{nodes}"
    );
    assert!(nodes.contains(&format!("{}@0 master - 0 0 1 connected 0-8191", first.address)), "{nodes}");
    assert!(nodes.contains(&clusters[0].id(0)) && nodes.contains(&clusters[1].id(1)));
    assert!(low.ask("CLUSTER INFO").contains("cluster_state:ok|"));
    assert!(low.ask("CLUSTER SHARDS").contains("$5|slots|*2|:0|:8191|$5|nodes|*1|*14|$2|id|$40|"));
    assert_eq!(low.ask("HELLO 3").chars().next(), Some('%'));
    assert!(low.ask("CLUSTER SHARDS").contains("%2|$5|slots|*2|:0|:8191|$5|nodes|*1|%7|"));
    assert!(low.ask("INFO cluster").ends_with("cluster_enabled:1"));
}

#[test]
fn slots_are_those_of_redis_cluster() {
    let ([first, second], _) = start();
    let mut client = first.client();
    assert_eq!(client.ask("CLUSTER KEYSLOT foo"), ":12182");
    assert_eq!(client.ask("CLUSTER KEYSLOT any{bar}"), ":5061");
    for number in 0..3 {
        assert_eq!(client.ask(&format!("SET {{bar}}{number} x")), "+OK");
    }
    assert_eq!(client.ask("CLUSTER COUNTKEYSINSLOT 5061"), ":3");
    assert_eq!(client.ask("CLUSTER COUNTKEYSINSLOT 5062"), ":0");
    assert_eq!(client.ask("CLUSTER COUNTKEYSINSLOT 16384"), "-ERR Invalid or out of range slot");
    for command in ["READONLY", "READWRITE", "ASKING"] {
        assert_eq!(client.ask(command), "+OK");
    }
    assert_eq!(client.ask("SELECT 1"), "-ERR a cluster has database 0 only");
    assert_eq!(client.ask("COMMAND GETKEYS ZUNIONSTORE to 2 a b WEIGHTS 1 2"), "*3|$2|to|$1|a|$1|b");
    assert_eq!(client.ask("COMMAND GETKEYS EVAL script 9223372036854775807 a b"), "*2|$1|a|$1|b");
    assert_eq!(client.ask("COMMAND GETKEYS PING"), "-ERR The command has no key arguments");
    assert!(second.client().ask("COMMAND INFO zunion").contains("+movablekeys"));
}

#[test]
fn a_store_of_one_shard_is_no_cluster_and_says_so() {
    let served = Served::start();
    let mut client = served.client();
    for command in ["CLUSTER SLOTS", "CLUSTER INFO", "READONLY", "ASKING"] {
        assert_eq!(client.ask(command), "-ERR This instance has cluster support disabled");
    }
    assert!(client.ask("INFO cluster").ends_with("cluster_enabled:0"));
    assert_eq!(client.ask("MSET foo 1 bar 2"), "+OK", "one server has all slots");
}
