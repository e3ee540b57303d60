//! The protocol of Redis clients: requests in every form, and clients that break its rules.

mod redis;

use std::io::Write;

use farcall_kv::resp::Options;
use farcall_kv::store::MEMORY_BYTES_MIN;
use redis::{Served, request};

#[test]
fn one_data_is_served_over_tcp_and_unix_sockets() {
    let served = Served::start();
    let (mut tcp, mut unix) = (served.client(), served.unix_client());
    assert_eq!(tcp.ask("SET key value"), "+OK");
    assert_eq!(unix.ask("GET key"), "$5|value");
    assert_eq!(unix.ask("INCRBY number 41"), ":41");
    assert_eq!(tcp.ask("incr number"), ":42");
    assert_eq!(tcp.ask("GET none"), "$-1");
    assert_eq!(tcp.ask("EXISTS key number none key"), ":3");
    assert_eq!(tcp.ask("DEL key none number"), ":2");
    assert_eq!(tcp.ask("SELECT 3"), "+OK");
    assert_eq!(tcp.ask("SET key other"), "+OK");
    assert_eq!(unix.ask("GET key"), "$-1", "databases are apart");
    assert_eq!(unix.ask("SELECT 16"), "-ERR DB index is out of range");
}

#[test]
fn requests_come_in_pieces_together_and_as_lines() {
    let served = Served::start();
    let mut client = served.client();
    let requests = [request(&[b"SET", b"a", b"1\r\n"]), request(&[b"GET", b"a"])].concat();
    for byte in &requests {
        client.stream.write_all(&[*byte]).expect("it reads");
    }
    assert_eq!((client.reply(), client.reply_bytes()), ("+OK".to_owned(), Some(b"$3\r\n1\r\n\r\n".to_vec())));
    let many = 10_000;
    let pipeline: Vec<u8> = (0..many).flat_map(|_| request(&[b"INCR", b"n"])).collect();
    client.stream.write_all(&pipeline).expect("it reads");
    for number in 1..=many {
        assert_eq!(client.reply(), format!(":{number}"));
    }
    client.stream.write_all(b"\r\nset b 'x y'\r\nGET \"b\"\n*0\r\nPING\r\n").expect("it reads");
    assert_eq!([client.reply(), client.reply(), client.reply()], ["+OK", "$3|x y", "+PONG"]);
}

#[test]
fn a_client_that_sends_no_more_gets_its_replies() {
    let served = Served::start();
    let mut client = served.client();
    client.send(&[b"SET", b"a", &[b'x'; 10_000]]);
    let pipeline: Vec<u8> = (0..20).flat_map(|_| request(&[b"GET", b"a"])).collect();
    client.stream.write_all(&pipeline).expect("it reads");
    client.stream.shutdown(std::net::Shutdown::Write).expect("a socket");
    assert_eq!(client.reply(), "+OK");
    for _ in 0..20 {
        assert_eq!(client.reply_bytes().expect("a reply").len(), 10_000 + 10);
    }
    assert_eq!(client.reply_bytes(), None);
}

#[test]
fn a_client_that_breaks_the_rules_is_told_and_sent_away() {
    let served = Served::start();
    let mut honest = served.client();
    for (bytes, error) in [
        (&b"*1\r\n$9223372036854775808\r\n"[..], "invalid bulk length"),
        (b"*-2147483649000000000000\r\n", "invalid multibulk length"),
        (b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\nfoo", "expected '$', got 'f'"),
        (b"GET \"x\r\n", "unbalanced quotes in request"),
    ] {
        let mut client = served.client();
        client.stream.write_all(bytes).expect("it reads");
        // The last one has no line end yet.
        let _gone = client.stream.write_all(b"\r\n");
        assert_eq!(client.reply(), format!("-ERR Protocol error: {error}"));
        assert_eq!(client.reply_bytes(), None, "the connection is closed");
        assert_eq!(honest.ask("PING"), "+PONG");
    }
    let mut browser = served.client();
    browser.stream.write_all(b"POST / HTTP/1.1\r\nHost: x\r\n\r\nSET a b\r\n").expect("it reads");
    assert!(browser.reply().starts_with("-ERR this is no web server"));
    assert_eq!(browser.reply_bytes(), None);
    assert_eq!(honest.ask("EXISTS a"), ":0");
}

#[test]
fn errors_have_the_shape_of_redis() {
    let served = Served::start();
    let mut client = served.client();
    for (line, error) in [
        ("NOPE a b", "-ERR unknown command 'NOPE', with args beginning with: 'a' 'b' "),
        ("GET", "-ERR wrong number of arguments for 'get' command"),
        ("INCRBY n x", "-ERR value is not an integer or out of range"),
        ("CLIENT NOPE", "-ERR unknown subcommand 'NOPE'. Try CLIENT HELP."),
        ("HELLO 4", "-NOPROTO unsupported protocol version"),
    ] {
        assert_eq!(client.ask(line), error);
    }
}

#[test]
fn commands_with_subcommands_tell_which_they_have() {
    let served = Served::start();
    let mut client = served.client();
    for name in ["CLIENT", "CONFIG", "OBJECT", "MEMORY", "COMMAND", "SCRIPT"] {
        let help = client.ask(&format!("{name} help"));
        assert!(help.starts_with('*') && help.contains(&format!("|+{name} <subcommand>")), "{help}");
        assert!(help.ends_with("|+HELP"), "{help}");
    }
    assert!(client.ask("OBJECT HELP").contains("|+ENCODING|"), "they are named");
    assert!(client.ask("OBJECT HELP k").starts_with("-ERR unknown subcommand"));
}

#[test]
fn resp3_is_spoken_on_demand() {
    let served = Served::start();
    let mut client = served.client();
    let hello = client.ask("HELLO 3 SETNAME me");
    assert!(hello.starts_with("%7|$6|server|$7|farcall|") && hello.contains("$5|proto|:3|"), "{hello}");
    assert_eq!(client.ask("GET none"), "_");
    assert_eq!(client.ask("CLIENT GETNAME"), "$2|me");
    assert!(client.ask("CONFIG GET data*").starts_with("%1|$9|databases|$2|16"));
    assert_eq!(client.ask("MULTI"), "+OK");
    assert_eq!(client.ask("RESET"), "+RESET");
    assert_eq!(client.ask("GET none"), "$-1");
}

#[test]
fn a_reply_that_is_not_wanted_has_no_rest() {
    let served = Served::start();
    let mut client = served.client();
    let elements: Vec<_> = (0..2000).map(|number| number.to_string()).collect();
    let words = [&b"RPUSH"[..], b"list"].into_iter().chain(elements.iter().map(String::as_bytes));
    client.send(&words.collect::<Vec<_>>());
    assert_eq!(client.reply(), ":2000");
    for long in [&[&b"KEYS"[..], b"*"][..], &[b"LRANGE", b"list", b"0", b"-1"]] {
        client.send(&[b"CLIENT", b"REPLY", b"SKIP"]);
        client.send(long);
        assert_eq!(client.ask("PING"), "+PONG");
        client.send(&[b"CLIENT", b"REPLY", b"OFF"]);
        client.send(long);
        assert_eq!(client.ask("CLIENT REPLY ON"), "+OK");
    }
}

#[test]
fn a_password_keeps_strangers_out() {
    let password = Some("secret".to_owned());
    let served = Served::with(MEMORY_BYTES_MIN, Options { password, ..Options::default() });
    let mut client = served.client();
    assert_eq!(client.ask("GET a"), "-NOAUTH Authentication required.");
    assert!(client.ask("HELLO 3").starts_with("-NOAUTH"));
    assert!(client.ask("AUTH wrong").starts_with("-WRONGPASS"));
    assert!(client.ask("AUTH secretsecret").starts_with("-WRONGPASS"));
    assert!(client.ask("AUTH other secret").starts_with("-WRONGPASS"));
    assert_eq!(client.ask("AUTH secret"), "+OK");
    assert_eq!(client.ask("GET a"), "$-1");
    assert_eq!(client.ask("RESET"), "+RESET");
    assert!(client.ask("GET a").starts_with("-NOAUTH"));
    assert!(client.ask("HELLO 2 AUTH default secret").starts_with("*14|"));
    let mut stranger = served.client();
    stranger.send(&[b"AUTH", &[b'x'; 20_000]]);
    assert_eq!(stranger.reply(), "-ERR Protocol error: unauthenticated bulk length");
}

#[test]
fn clients_are_listed_named_and_sent_away() {
    let served = Served::with(MEMORY_BYTES_MIN, Options { clients_max: 2, ..Options::default() });
    let (mut first, mut second) = (served.client(), served.unix_client());
    assert_eq!((first.ask("CLIENT ID"), second.ask("CLIENT ID")), (":1".to_owned(), ":2".to_owned()));
    assert_eq!(served.client().reply(), "-ERR max number of clients reached");
    assert_eq!(second.ask("CLIENT SETNAME it"), "+OK");
    assert!(second.ask("CLIENT SETNAME a\nb").starts_with("-ERR Client names cannot contain"));
    let list = first.ask("CLIENT LIST");
    assert!(list.contains("id=1 addr=127.0.0.1:") && list.contains("name=it"), "{list}");
    assert_eq!(first.ask("CLIENT KILL ID 2"), ":1");
    assert_eq!(second.reply_bytes(), None);
    assert_eq!(first.ask("CLIENT KILL ID 2"), ":0");
    for request in [&[&b"CLIENT"[..], b"REPLY", b"SKIP"][..], &[b"INCR", b"n"]] {
        first.send(request);
    }
    assert_eq!(first.ask("INCR n"), ":2", "two commands had no reply");
}
