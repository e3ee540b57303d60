//! Clients that others wrote: redis-cli, redis-benchmark and redis-py. Those that are not installed are
//! reported and not tested; `scripts/prepare test` installs them.

mod redis;

use std::path::PathBuf;
use std::process::Command;

use farcall_kv::resp::Options;
use redis::Served;

/// Runs a program; `None` when it is not there.
fn run(program: &str, args: &[&str]) -> Option<String> {
    let Ok(output) = Command::new(program).args(args).output() else {
        println!("unsupported: {program} is not installed");
        return None;
    };
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {args:?}: {out}{error}");
    Some(out.into_owned())
}

/// A file of the clients that `scripts/prepare redis-clients` installs; `None` when it could not.
fn installed(file: &str) -> Option<String> {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target")), PathBuf::from);
    let path = target.join("redis-clients").join(file);
    if !path.exists() {
        println!("unsupported: {} is not there", path.display());
        return None;
    }
    Some(path.display().to_string())
}

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/redis");

fn port(served: &Served) -> String {
    served.address.rsplit_once(':').expect("a port").1.to_owned()
}

#[test]
fn redis_cli_and_redis_benchmark_work() {
    let served = Served::start();
    let (port, path) = (port(&served), served.socket.display().to_string());
    let cli = |args: &[&str]| run("redis-cli", &[&["-p", &port][..], args].concat());
    if cli(&["set", "greeting", "hello"]).is_none() {
        return;
    }
    assert_eq!(cli(&["-3", "get", "greeting"]).as_deref(), Some("hello\n"));
    assert_eq!(run("redis-cli", &["-s", &path, "append", "greeting", "!"]).as_deref(), Some("6\n"));
    assert!(cli(&["info"]).expect("it is there").contains("db0:keys=1"));
    assert_eq!(cli(&["--scan", "--pattern", "g*"]).as_deref(), Some("greeting\n"));
    let args = ["-p", &port, "-t", "ping,set,get,incr,mset", "-n", "2000", "-P", "16", "-q"];
    let report = run("redis-benchmark", &args).unwrap_or_default();
    assert!(!report.to_lowercase().contains("error"), "{report}");
    assert_eq!(cli(&["get", "counter:__rand_int__"]).as_deref(), Some("2000\n"));
}

#[test]
fn redis_py_works() {
    let served = Served::start();
    if run("python3", &["-c", "print()"]).is_none() {
        return;
    }
    if !Command::new("python3").args(["-c", "import redis"]).status().is_ok_and(|status| status.success()) {
        println!("unsupported: redis-py is not installed");
        return;
    }
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/redis/client.py");
    let (port, path) = (port(&served), served.socket.display().to_string());
    assert_eq!(run("python3", &[program, &port, &path]).as_deref(), Some("done\n"));
}

#[test]
fn long_values_of_redis_py_are_stored_as_a_models_cache_does() {
    let served = Served::with(256 << 20, Options::default());
    if !Command::new("python3").args(["-c", "import redis.asyncio"]).status().is_ok_and(|it| it.success()) {
        println!("unsupported: redis-py is not installed");
        return;
    }
    let program = format!("{PROGRAMS}/long_values.py");
    assert_eq!(run("python3", &[&program, &port(&served)]).as_deref(), Some("done\n"));
}

#[test]
fn the_cache_of_django_works() {
    let served = Served::start();
    let Some(python) = installed("python/bin/python") else { return };
    let program = format!("{PROGRAMS}/django_cache.py");
    assert_eq!(run(&python, &[&program, &port(&served)]).as_deref(), Some("done\n"));
}

#[test]
fn celery_has_its_broker_and_its_results() {
    let served = Served::start();
    let Some(python) = installed("python/bin/python") else { return };
    let program = format!("{PROGRAMS}/celery_broker.py");
    let said = run(&python, &[&program, &port(&served)]).expect("it is there");
    assert!(said.ends_with("done\n"), "{said}");
}

#[test]
fn redis_py_with_hiredis_works() {
    let served = Served::start();
    let Some(python) = installed("python/bin/python") else { return };
    let (port, path) = (port(&served), served.socket.display().to_string());
    let program = format!("{PROGRAMS}/client.py");
    assert_eq!(run(&python, &[&program, &port, &path]).as_deref(), Some("done\n"));
}

#[test]
fn node_redis_and_ioredis_work() {
    let served = Served::start();
    let Some(modules) = installed("node/node_modules") else { return };
    // Modules are looked for beside the program that asks for them.
    let program = format!("{modules}/../clients-{}.mjs", std::process::id());
    std::fs::copy(format!("{PROGRAMS}/clients.mjs"), &program).expect("a folder of ours");
    let said = run("node", &[&program, &port(&served)]);
    std::fs::remove_file(&program).expect("it was copied");
    assert_eq!(said.as_deref(), Some("done\n"));
}

#[test]
fn go_redis_works() {
    let served = Served::start();
    let Some(client) = installed("go/client") else { return };
    assert_eq!(run(&client, &[&port(&served)]).as_deref(), Some("done\n"));
}
