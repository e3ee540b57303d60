//! Every way to be started, and every contradiction.

use super::*;

fn launch(variables: &[(&str, &str)]) -> Result<Launch, LaunchError> {
    Launch::from_lookup(|wanted| find(variables, wanted))
}

fn find(variables: &[(&str, &str)], wanted: &str) -> Option<OsString> {
    variables.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.into())
}

fn refusal(variables: &[(&str, &str)]) -> String {
    launch(variables).expect_err("the variables are wrong").to_string()
}

#[test]
fn nothing_set_is_alone() {
    let alone = launch(&[]).expect("nothing is wrong");
    assert_eq!((alone.rank(), alone.size(), &alone), (0, 1, &Launch::Alone));
}

#[test]
fn rank_0_serves_the_rendezvous_unless_it_is_external() {
    let variables = |rank, external| {
        [
            (RENDEZVOUS_VARIABLE, "a:1"),
            (RANK_VARIABLE, rank),
            (SIZE_VARIABLE, "3"),
            (EXTERNAL_VARIABLE, external),
        ]
    };
    for (rank, external, expected) in [("0", "0", true), ("0", "1", false), ("2", "0", false)] {
        let parsed = launch(&variables(rank, external)).expect("nothing is wrong");
        assert!(matches!(parsed, Launch::Rendezvous { size: 3, serves, .. } if serves == expected));
    }
}

#[test]
fn a_host_list_gives_the_size() {
    let parsed = launch(&[(HOSTS_VARIABLE, "a:1,b:2"), (RANK_VARIABLE, "1")]).expect("nothing is wrong");
    assert_eq!((parsed.rank(), parsed.size()), (1, 2));
    let variables = [(HOSTS_VARIABLE, "a:1,b:2"), (RANK_VARIABLE, "1"), (SIZE_VARIABLE, "3")];
    assert_eq!(launch(&variables), Err(LaunchError::SizeDiffers { size: 3, hosts: 2 }));
}

#[test]
fn what_is_wrong_is_named() {
    let complete = (RENDEZVOUS_VARIABLE, "a:1");
    let cases: [(&[(&str, &str)], &str); 8] = [
        (&[(RENDEZVOUS_VARIABLE, "a")], "FARCALL_RENDEZVOUS=`a` is not a host:port; correct or unset it"),
        (&[complete], "FARCALL_RENDEZVOUS is set but FARCALL_RANK is not; set both or neither"),
        (
            &[complete, (RANK_VARIABLE, "0")],
            "FARCALL_RENDEZVOUS is set but FARCALL_SIZE is not; set both or neither",
        ),
        (&[(RANK_VARIABLE, "-1")], "FARCALL_RANK=`-1` is not a rank such as 0; correct or unset it"),
        (
            &[(RANK_VARIABLE, "0")],
            "FARCALL_RANK is set but FARCALL_RENDEZVOUS or FARCALL_HOSTS is not; set both or neither",
        ),
        (&[(SIZE_VARIABLE, "2")], "FARCALL_SIZE is set but FARCALL_RENDEZVOUS is not; set both or neither"),
        (
            &[(SIZE_VARIABLE, "0")],
            "FARCALL_SIZE=`0` is not a number of ranks from 1 to 16384; correct or unset it",
        ),
        (
            &[complete, (RANK_VARIABLE, "2"), (SIZE_VARIABLE, "2")],
            "FARCALL_RANK=2 is not less than the number of ranks, 2; ranks count from 0",
        ),
    ];
    for (variables, expected) in cases {
        assert_eq!(refusal(variables), expected);
    }
    assert_eq!(launch(&[complete, (HOSTS_VARIABLE, "a:1")]), Err(LaunchError::Ambiguous));
    assert!(refusal(&[(HOSTS_VARIABLE, "a:1,b")]).starts_with("FARCALL_HOSTS=`a:1,b` is not a list"));
    assert!(
        refusal(&[complete, (RANK_VARIABLE, "0"), (SIZE_VARIABLE, "1"), (EXTERNAL_VARIABLE, "yes")])
            .starts_with("FARCALL_RENDEZVOUS_EXTERNAL=`yes` is not 0 or 1")
    );
}
