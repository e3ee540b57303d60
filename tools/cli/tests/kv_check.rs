//! `farcall kv check`: histories that have an order, and that have none.

mod common;

use common::{farcall, sentence};

#[test]
fn a_history_without_an_order_is_told_with_the_operation_at_which_it_ends() {
    let folder = std::env::temp_dir().join(format!("farcall-check-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder");
    let write = |name: &str, lines: &str| {
        let path = folder.join(name);
        std::fs::write(&path, format!("farcall-history 1\n{lines}\n")).expect("room");
        path.to_str().expect("text").to_owned()
    };
    let right = write("right", "1 k 0 - put a unknown\n2 k 1 2 get found a\n2 n 3 4 add 2 sum 2");
    let output = farcall(&["kv", "check", &right]);
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success());
    assert_eq!(
        text,
        format!("{right}: 3 operations on 2 keys, 1 with an unknown outcome: an order explains them\n")
    );

    let wrong = write("wrong", "1 k 0 1 put a done\n2 k 2 3 get nothing");
    let output = farcall(&["kv", "check", &right, &wrong]);
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(1));
    assert!(text.ends_with("every one ends before `2 k 2 3 get nothing`\n"), "{text}");
    let output = farcall(&["kv", "check", "--json", "-", &wrong]);
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!(object["unexplained"][0]["operation"], "2 k 2 3 get nothing");

    let none = write("none", "1 k 0 1 look");
    let said = sentence(&["kv", "check", &none], 1);
    assert!(said.contains("line 2 is no operation: it asks for none of get, put, delete and add"), "{said}");
    std::fs::remove_dir_all(folder).expect("the test's own");
}
