//! Listings as the programs print them, cut down to one parameter of each kind.

use super::{libfabric, open_mpi, ucx};
use crate::experiment::ExperimentFile;
use crate::space::Space;

fn space(file: &ExperimentFile) -> Space {
    file.space().unwrap_or_else(|error| panic!("{error}"))
}

fn shown(space: &Space) -> Vec<(String, Vec<String>, String)> {
    let shown = |parameter: &crate::space::Parameter| {
        let levels = (0..parameter.levels.len()).map(|level| parameter.show(level)).collect();
        (parameter.name.clone(), levels, parameter.show(parameter.default))
    };
    space.parameters.iter().map(shown).collect()
}

fn expected(parameters: &[(&str, &[&str], &str)]) -> Vec<(String, Vec<String>, String)> {
    let owned = |(name, levels, default): &(&str, &[&str], &str)| {
        ((*name).to_owned(), levels.iter().map(|level| (*level).to_owned()).collect(), (*default).to_owned())
    };
    parameters.iter().map(owned).collect()
}

#[test]
fn ucx_tells_its_syntax() {
    let file = ucx(concat!(
        "#\n# UCP configuration\n#\n\n",
        "#\n# Threshold for rendezvous.\n# More about it.\n#\n# syntax:    memory units: <number>[b|kb|mb|gb], \"inf\", or \"auto\"\n#\nUCX_RNDV_THRESH=auto\n\n",
        "#\n# Size of segments.\n#\n# syntax:    memory units: <number>[b|kb|mb|gb], \"inf\", or \"auto\"\n#\nUCX_SEG_SIZE=8K\n\n",
        "#\n# Whether.\n#\n# syntax:    <y|n>\n#\nUCX_WHETHER=n\n\n",
        "#\n# Perhaps.\n#\n# syntax:    <yes|no|try>\n#\nUCX_PERHAPS=try\n\n",
        "#\n# Which.\n#\n# syntax:    [lazy|now|none]\n#\nUCX_WHICH=lazy\n\n",
        "#\n# How many.\n#\n# syntax:    unsigned integer\n#\nUCX_COUNT=64\n\n",
        "#\n# Name.\n#\n# syntax:    string\n#\nUCX_NAME=x\n",
        "#\n# Pools.\n#\n# syntax:    comma-separated list of: memory units: <number>[b|kb|mb|gb], \"inf\", or \"auto\"\n#\nUCX_SIZES=64,1K\n",
    ))
    .expect("there are parameters");
    assert_eq!(file.parameter[0].about.as_deref(), Some("Threshold for rendezvous."));
    assert_eq!(file.parameter[0].environment.as_deref(), Some("UCX_RNDV_THRESH"));
    assert_eq!(
        shown(&space(&file)),
        expected(&[
            ("ucx_rndv_thresh", &["auto", "1K", "8K", "64K", "512K"], "auto"),
            ("ucx_seg_size", &["512", "2K", "8K", "32K", "128K"], "8K"),
            ("ucx_whether", &["false", "true"], "false"),
            ("ucx_perhaps", &["y", "n", "try"], "try"),
            ("ucx_which", &["lazy", "now", "none"], "lazy"),
            ("ucx_count", &["4", "16", "64", "256", "1024"], "64"),
        ])
    );
}

#[test]
fn open_mpi_tells_type_and_words() {
    let line = |name: &str, rest: &str| format!("mca:btl:x:param:{name}:{rest}\n");
    let parameter = |name: &str, value: &str, kind: &str, more: &str| {
        let more = if more.is_empty() { String::new() } else { line(name, more) };
        line(name, &format!("value:{value}"))
            + &line(name, "status:writeable")
            + &line(name, &format!("type:{kind}"))
            + &more
    };
    let listing = [
        parameter("a_eager_limit", "4096", "size_t", "help:\"Longest: eager\""),
        parameter("b_num", "8", "int", ""),
        parameter("c_on", "true", "bool", ""),
        parameter("d_copy", "cma", "int", "enumerator:value:1:cma")
            + &line("d_copy", "enumerator:value:3:none"),
        parameter("e_dir", "/dev/shm", "string", ""),
        line("f_fixed", "value:1") + &line("f_fixed", "status:read-only") + &line("f_fixed", "type:int"),
    ]
    .concat();
    let file = open_mpi(&listing).expect("there are parameters");
    assert_eq!(file.parameter[0].about.as_deref(), Some("Longest: eager"));
    assert_eq!(
        shown(&space(&file)),
        expected(&[
            ("a_eager_limit", &["256", "1K", "4K", "16K", "64K"], "4K"),
            ("b_num", &["1", "2", "8", "32", "128"], "8"),
            ("c_on", &["false", "true"], "true"),
            ("d_copy", &["cma", "none"], "cma"),
        ])
    );
}

#[test]
fn libfabric_tells_some_defaults_in_its_sentences() {
    let file = libfabric(concat!(
        "# FI_MR_COUNT: size_t\n# Regions that may be stored. (default: 1024)\n\n",
        "# FI_P2P: Boolean (0/1, on/off, true/false, yes/no)\n# Disable peers. (default: no).\n\n",
        "# FI_LEVEL: String\n# Which level (default: warn)\n\n",
        "# FI_UNKNOWN: Integer\n# Without one.\n",
        "# FI_NEVER: size_t\n# From where, set to -1 to disable (default: 18446744073709551615)\n",
    ))
    .expect("there are parameters");
    assert_eq!(
        shown(&space(&file)),
        expected(&[
            ("fi_mr_count", &["64", "256", "1024", "4096", "16384"], "1024"),
            ("fi_p2p", &["false", "true"], "false"),
        ])
    );
}
