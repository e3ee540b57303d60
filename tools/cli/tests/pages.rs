//! What pages, services and examples tell a reader to type.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::farcall;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The pages that a reader may be on.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![repository().join("README.md")];
    let mut folders = vec![repository().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("it can be read").flatten() {
            let path = entry.path();
            match path.is_dir() {
                // Diaries and records tell the past.
                true if path.ends_with("performance") || path.ends_with("decisions") => {}
                true => folders.push(path),
                false if path.extension().is_some_and(|end| end == "md") => pages.push(path),
                false => {}
            }
        }
    }
    pages
}

/// The blocks of a page in a language, each as its lines.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut rest = page;
    while let Some((_, behind)) = rest.split_once("\n```") {
        let Some((kind, behind)) = behind.split_once('\n') else { break };
        let Some((block, behind)) = behind.split_once("```") else { break };
        if kind.trim() == language {
            blocks.push(block.to_owned());
        }
        rest = behind;
    }
    blocks
}

/// The words of the program's command in a line, if it has one that is complete.
fn command(line: &str) -> Option<Vec<String>> {
    let line = line.split(" #").next().unwrap_or_default().trim();
    let line = line.rsplit("&& ").next().unwrap_or(line).split(" ||").next().unwrap_or_default();
    let line = line.split(" >").next().unwrap_or_default();
    let words: Vec<_> = words_of(line).into_iter().filter(|word| word != "&").collect();
    let at = words.iter().position(|word| !word.contains('=') || word.starts_with('-'))?;
    let is_cut_short = line.contains('…') || line.ends_with('\\') || line.contains('<') || line.contains('|');
    if words[at] != "farcall" || is_cut_short {
        return None;
    }
    Some(words[at + 1..].to_vec())
}

/// The words of a line, as a shell takes them apart that knows quotes only.
fn words_of(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(end), _) if end == letter => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// A file of recorded arrivals, which is read before anything else is done.
fn arrivals() -> String {
    let file = std::env::temp_dir().join(format!("farcall-pages-{}.jsonl", std::process::id()));
    fs::write(&file, "{\"time\": 0, \"size\": 100}\n{\"time\": 10, \"size\": 200}\n").expect("room");
    file.to_str().expect("text").to_owned()
}

/// What stands in pages for something of the reader's.
fn filled(word: &str) -> String {
    match word {
        "PID" => std::process::id().to_string(),
        "trace.jsonl" => arrivals(),
        _ => word.to_owned(),
    }
}

#[test]
fn every_command_of_every_page_is_one_that_the_program_takes() {
    let mut count = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).expect("it can be read");
        for line in blocks(&text, "sh").iter().flat_map(|block| block.lines()) {
            let Some(words) = command(line) else { continue };
            let mut words: Vec<_> = words.iter().map(|word| filled(word)).collect();
            // The words before it are checked first, and nothing is done.
            words.push("--help".to_owned());
            let words: Vec<_> = words.iter().map(String::as_str).collect();
            let output = farcall(&words);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: {line}\n{said}", page.display());
            count += 1;
        }
    }
    drop(fs::remove_file(arrivals()));
    assert!(count > 80, "only {count} commands were found");
}

#[test]
fn the_commands_of_services_and_examples_are_ones_that_the_program_takes() {
    let deploy = repository().join("deploy");
    let read = |name: &str| fs::read_to_string(deploy.join(name)).expect("it is there");
    let check = |words: &[&str]| {
        let output = farcall(&[words, &["--help"]].concat());
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let option_of = |file: &str| {
        let text = read(file);
        text.split('"').nth(1).expect("options in quotes").to_owned()
    };
    for (unit, options) in [
        ("farcall-kv.service", option_of("systemd/kv.conf")),
        ("farcall-registry.service", option_of("systemd/registry.conf")),
        ("farcall-export.service", String::new()),
    ] {
        let text = read(&format!("systemd/{unit}"));
        let start =
            text.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/farcall ")).expect("a start");
        let words = start.split(' ').filter(|word| !word.starts_with('$')).chain(options.split_whitespace());
        check(&words.collect::<Vec<_>>());
    }
    // Lists of words, over several lines too.
    let kubernetes = read("kubernetes.yml").replace(",\n", ",");
    let lists = kubernetes.split("args: [").chain(kubernetes.split("command: [farcall, "));
    let lists: Vec<_> = lists.filter_map(|rest| rest.split(']').next()).filter(is_list).collect();
    for list in &lists {
        check(&list.split(',').map(|word| word.trim().trim_matches('"')).collect::<Vec<_>>());
    }
    assert_eq!(lists.len(), 3, "{lists:?}");
}

/// Whether it is words of a command, and not what stands before the first of them.
fn is_list(text: &&str) -> bool {
    text.contains("--") && !text.contains("apiVersion")
}

/// Runs a script in a folder and a network of its own, with the program on the path; what it printed.
fn run_alone(script: &str, folder: &Path) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_farcall")).parent().expect("it is in a folder");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let whole = format!("ip link set lo up && set -e\n{script}\nkill $(jobs -p)\nwait");
    let mut command = Command::new("unshare");
    command.args(["--net", "bash", "-c", &whole]).current_dir(folder);
    command.env("PATH", path).env("XDG_RUNTIME_DIR", folder);
    let output = command.output().expect("unshare is there");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("unshare failed"), "a network of its own takes root: {said}");
    String::from_utf8(output.stdout).expect("it is text") + &said
}

/// A reader is slower than a script: a store serves before the next line is typed.
fn patient(block: &str) -> String {
    let until_it_serves = "until farcall kv stat > stat.log 2>&1; do sleep 0.05; done";
    let lines = block.lines().map(|line| {
        let wait = if line.starts_with("farcall kv serve") { until_it_serves } else { "" };
        format!("{line}\n{wait}\n")
    });
    lines.collect()
}

#[test]
fn the_tutorial_of_durable_tables_does_what_it_says() {
    if !rustix::process::geteuid().is_root() {
        println!("only root can make a network for the tutorial: not tested");
        return;
    }
    let page = fs::read_to_string(repository().join("docs/tutorial/table.md")).expect("it is there");
    let blocks_of_page = blocks(&page, "sh");
    let [first, second] = blocks_of_page.as_slice() else { panic!("two blocks: {blocks_of_page:?}") };
    let folder = std::env::temp_dir().join(format!("farcall-tutorial-{}", std::process::id()));
    fs::create_dir(&folder).expect("a new folder");
    let printed = run_alone(&format!("{}echo; echo ------\n{}", patient(first), patient(second)), &folder);
    fs::remove_dir_all(&folder).expect("it is ours");
    let (before, after) =
        printed.split_once("------\n").unwrap_or_else(|| panic!("it ended early: {printed}"));
    assert_eq!(before.trim_end(), blocks(&page, "text")[0].trim_end(), "{printed}");
    assert!(after.contains("shipped") && after.contains("exit status 3") && after.contains("exit status 4"));
    assert!(after.contains("there is no object `visits`"), "{after}");
}

#[test]
fn the_commands_of_the_readme_run() {
    let page = fs::read_to_string(repository().join("README.md")).expect("it is there");
    let lines: Vec<_> = blocks(&page, "sh")
        .iter()
        .flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let makefile = fs::read_to_string(repository().join("Makefile")).expect("it is there");
    let (ours, others): (Vec<_>, Vec<_>) = lines.iter().partition(|line| line.starts_with("farcall "));
    for line in others {
        let words: Vec<_> = line.split_whitespace().collect();
        let is_there = match words[..] {
            // What they do takes minutes, and other tests do it.
            ["make", target, ..] => makefile.contains(&format!(".PHONY: {target}\n")),
            ["cargo", "install", "--path", path, ..] => repository().join(path).join("Cargo.toml").exists(),
            _ => false,
        };
        assert!(is_there, "{line}");
    }
    assert!(ours.len() > 5, "{ours:?}");
    if !rustix::process::geteuid().is_root() {
        println!("only root can make a network for the commands: not run");
        return;
    }
    let folder = std::env::temp_dir().join(format!("farcall-readme-{}", std::process::id()));
    fs::create_dir(&folder).expect("a new folder");
    let printed =
        run_alone(&patient(&ours.iter().map(|line| format!("{line}\n")).collect::<String>()), &folder);
    fs::remove_dir_all(&folder).expect("it is ours");
    for what in ["ring+shm", "version 1", "hello", "kv serve", "farcall_kv_puts_total"] {
        assert!(printed.contains(what), "{what} is missing in {printed}");
    }
    assert!(!printed.contains("farcall: "), "nothing failed: {printed}");
}
