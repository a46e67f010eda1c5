//! Policies read from files: what is accepted, and how every mistake is told.
#![cfg(feature = "config")]

use std::fs;
use std::time::Duration;

use tollgate::{AlgorithmKind, AnyAlgorithm, CarryOver, Policies, Policy, Quota, WhenFull};

const SOUND: &str = r#"
default = "free"
max_clients = 500_000
when_full = "admit"

[tier.free]
algorithm = "token_bucket"
limit = 100
period = "1m"
burst = 20
carry_over = "proportional"

[tier.premium]
algorithm = "sliding_counter"
limit = 1000
period = "1500ms"

[tier.batch]
algorithm = "fixed_window"
limit = 10_000
period = "1d"
anchor = "first_request"
carry_over = "reset"

[tier.internal]
unlimited = true

[tier.banned]
blocked = true
unlimited = false

[global]
algorithm = "leaky_bucket"
limit = 5000
period = "1s"
queue = 10
"#;

const ALGORITHMS: [&str; 5] =
    ["token_bucket", "leaky_bucket", "fixed_window", "sliding_counter", "sliding_log"];

fn parse(text: &str) -> Policies {
    Policies::from_toml("p.toml", text).unwrap()
}

/// The lines of the error.
fn mistakes(text: &str) -> Vec<String> {
    let error = Policies::from_toml("p.toml", text).unwrap_err();
    let lines: Vec<_> = error.to_string().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), error.mistakes().len(), "{error}");
    lines
}

/// The only line of the error.
fn mistake(text: &str) -> String {
    let lines = mistakes(text);
    assert_eq!(lines.len(), 1, "{lines:#?}");
    lines.into_iter().next().unwrap()
}

/// One tier, with the given lines beside a token bucket's three.
fn tier(lines: &str) -> String {
    format!("[tier.a]\nalgorithm = \"token_bucket\"\nlimit = 10\nperiod = \"1s\"\n{lines}\n")
}

/// One tier of three lines, one of them replaced.
fn with(field: &str, value: &str) -> String {
    let lines = [("algorithm", "\"token_bucket\""), ("limit", "10"), ("period", "\"1s\"")];
    let lines = lines
        .map(|(name, given)| format!("{name} = {}\n", if name == field { value } else { given }));
    format!("[tier.a]\n{}", lines.concat())
}

#[test]
fn a_file_is_printed_back_in_plain_words() {
    assert_eq!(
        parse(SOUND).to_string(),
        "\
banned: blocked
batch: 10000 per 1d, fixed window from the first request, reset on change
free (default): 100 per 1m, burst 20, token bucket, carried over in proportion
internal: unlimited
premium: 1000 per 1500ms, sliding window counter
all clients together: 5000 per 1s, queue 10, leaky bucket
at most 500000 clients, then newcomers are admitted unlimited
"
    );
}

#[test]
fn a_file_says_what_code_can_say() {
    let make = |kind, quota| AnyAlgorithm::new(kind, quota).unwrap();
    let bucket = Quota::per_minute(100).unwrap().with_burst(20).unwrap();
    let queue = AlgorithmKind::LeakyBucket { queue: 0 };
    let text = r#"
        when_full = "admit"
        max_clients = 7
        tier.free = { algorithm = "token_bucket", limit = 100, period = "1m", burst = 20, carry_over = "reset" }
        global = { algorithm = "leaky_bucket", limit = 5, period = "3us" }
    "#;
    let expected = Policies::new(
        "free",
        Policy::new(make(AlgorithmKind::TokenBucket, bucket)).carry_over(CarryOver::Reset),
    )
    .global(make(queue, Quota::new(5, Duration::from_micros(3)).unwrap()))
    .max_clients(7)
    .when_full(WhenFull::Admit);
    assert_eq!(parse(text), expected);
}

#[test]
fn what_is_left_out_is_as_in_code() {
    let bucket = AnyAlgorithm::new(AlgorithmKind::TokenBucket, Quota::per_second(10).unwrap());
    assert_eq!(parse(&tier("")), Policies::new("a", bucket.unwrap()));
    assert_eq!(parse("[tier.a]\nblocked = true").to_string().lines().count(), 2);
}

#[test]
fn the_names_of_tiers_are_free() {
    let text = "default = \"a b\"\n[tier.\"a b\"]\nunlimited = true\n[tier.global]\nblocked = true";
    assert!(parse(text).to_string().starts_with("a b (default): unlimited\nglobal: blocked\n"));
    let text = "[tier.\"a b\"]\nunlimited = 1";
    assert_eq!(mistake(text), "p.toml:2: tier.\"a b\".unlimited = 1: expected true or false");
}

#[test]
fn a_value_out_of_place_is_told_with_what_would_be_accepted() {
    const COUNT: &str = "expected a whole number, 1 to 18446744073709551615";
    const PERIOD: &str = "expected a whole number and ns, us, ms, s, m, h or d in quotes, \
                          such as \"1m\", from \"1ns\" to \"213503d\"";
    for (field, value, accepted) in [
        ("limit", "0", COUNT),
        ("limit", "-5", COUNT),
        ("limit", "1.5", COUNT),
        ("limit", "1e3", COUNT),
        ("limit", "nan", COUNT),
        ("limit", "\"many\"", COUNT),
        ("limit", "true", COUNT),
        ("limit", "1979-05-27", COUNT),
        ("limit", "18446744073709551616", COUNT),
        ("limit", "99999999999999999999999999", COUNT),
        ("period", "60", PERIOD),
        ("period", "\"0s\"", PERIOD),
        ("period", "\"-1s\"", PERIOD),
        ("period", "\"1.5s\"", PERIOD),
        ("period", "\"1 fortnight\"", PERIOD),
        ("period", "\"999999999d\"", PERIOD),
        ("period", "\"99999999999999999999999ns\"", PERIOD),
    ] {
        let line = if field == "limit" { 3 } else { 4 };
        let expected = format!("p.toml:{line}: tier.a.{field} = {value}: {accepted}");
        assert_eq!(mistake(&with(field, value)), expected);
    }
    for (line, accepted) in [
        ("burst = 0", COUNT),
        ("burst = -1", COUNT),
        ("carry_over = \"half\"", "expected \"keep\", \"proportional\" or \"reset\""),
        ("carry_over = 1", "expected \"keep\", \"proportional\" or \"reset\""),
        ("blocked = \"yes\"", "expected true or false"),
    ] {
        assert_eq!(mistake(&tier(line)), format!("p.toml:5: tier.a.{line}: {accepted}"));
    }
    for (line, accepted) in [
        ("max_clients = 0", COUNT),
        ("max_clients = \"all\"", COUNT),
        ("when_full = \"panic\"", "expected \"refuse\" or \"admit\""),
        ("default = 1", "expected the name of a tier in quotes"),
        ("default = \"b\"", "expected one of the tiers: [\"a\"]"),
        ("global = 5", "expected a section, [global]"),
    ] {
        assert_eq!(
            mistake(&format!("{line}\n{}", tier(""))),
            format!("p.toml:1: {line}: {accepted}")
        );
    }
}

#[test]
fn the_names_of_algorithms_are_listed() {
    let line = mistake(&with("algorithm", "\"magic\""));
    assert!(line.starts_with("p.toml:2: tier.a.algorithm = \"magic\": expected one of"), "{line}");
    assert!(ALGORITHMS.iter().all(|name| line.contains(&format!(" \"{name}\""))), "{line}");
    assert!(mistake(&with("algorithm", "1")).contains(" = 1: expected one of \"token_bucket\""));
}

#[test]
fn a_field_of_another_algorithm_is_a_mistake() {
    for (field, value, owner) in [
        ("burst", "5", "token_bucket"),
        ("queue", "5", "leaky_bucket"),
        ("anchor", "\"aligned\"", "fixed_window"),
    ] {
        for kind in ALGORITHMS {
            let text = format!("{}{field} = {value}", with("algorithm", &format!("{kind:?}")));
            if kind == owner {
                parse(&text);
            } else {
                let expected = format!(
                    "p.toml:5: tier.a.{field} = {value}: expected only with algorithm = {owner:?}"
                );
                assert_eq!(mistake(&text), expected);
            }
        }
    }
}

#[test]
fn unlimited_and_blocked_stand_alone() {
    let lines = mistakes("[tier.a]\nunlimited = true\nlimit = 1\nperiod = \"1s\"");
    assert_eq!(
        lines,
        [
            "p.toml:3: tier.a.limit = 1: expected without unlimited = true",
            "p.toml:4: tier.a.period = \"1s\": expected without unlimited = true",
        ]
    );
    assert_eq!(
        mistake("[tier.a]\nunlimited = true\nblocked = true"),
        "p.toml:3: tier.a.blocked = true: expected without unlimited = true"
    );
    parse("[tier.a]\nblocked = true\ncarry_over = \"reset\"");
    // Which of the two was meant cannot be told, but what stands beside it can be checked.
    assert_eq!(mistakes(&with("limit", "0\nblocked = 1")).len(), 2);
}

#[test]
fn what_no_word_holds_is_told_at_the_field_to_blame() {
    let log = with("algorithm", "\"sliding_log\"");
    let slow = with("period", "\"213503d\"").replace("10", "1");
    for (text, start) in [
        (
            with("algorithm", "\"sliding_counter\"").replace("10", "18446744073709551615"),
            "p.toml:3: tier.a.limit = 18446744073709551615: limit 18446744073709551615: at most ",
        ),
        (
            format!("{slow}burst = 18446744073709551615"),
            "p.toml:5: tier.a.burst = 18446744073709551615: burst 18446744073709551615: at most ",
        ),
        (
            slow.replace("token", "leaky") + "queue = 18446744073709551614",
            "p.toml:5: tier.a.queue = 18446744073709551614: queue 18446744073709551614: at most ",
        ),
        (
            log.replace("10", "1_000_000"),
            "p.toml:3: tier.a.limit = 1_000_000: limit 1000000: at most ",
        ),
        (log.replace("1s", "9999d"), "p.toml:4: tier.a.period = \"9999d\": period "),
    ] {
        let line = mistake(&text);
        assert!(line.starts_with(start), "{line}");
    }
}

#[test]
fn a_field_that_nobody_knows_is_told_with_those_known() {
    assert_eq!(
        mistake(&tier("limt = 5")),
        "p.toml:5: tier.a.limt = 5: unknown: accepted here are algorithm, limit, period, burst, \
         queue, anchor, carry_over, in_flight, unlimited, \
         blocked, limits"
    );
    assert_eq!(
        mistake(&format!("{}[tiers.b]\n", tier(""))),
        "p.toml:6: tiers = a section: unknown: accepted here are default, max_clients, when_full, \
         tier, global"
    );
    assert!(
        mistake(&tier("[global]\nunlimited = true\nx.y = 1")).starts_with("p.toml:7: global.x =")
    );
}

#[test]
fn a_field_that_is_missing_is_told_with_its_section() {
    let lines = mistakes(&format!("{}[global]\nalgorithm = \"leaky_bucket\"\n", tier("")));
    assert_eq!(
        lines[0],
        "p.toml:6: global.limit: missing: expected a whole number, 1 to 18446744073709551615"
    );
    assert!(lines[1].starts_with("p.toml:6: global.period: missing: expected a whole number and "));
    assert_eq!(mistakes("[tier.a]").len(), 3);
}

#[test]
fn there_is_a_default_tier() {
    let tiers = "[tier.b]\nblocked = true\n[tier.a]\nblocked = true\n";
    assert_eq!(
        mistake(tiers),
        "p.toml:1: default: missing: expected one of the tiers: [\"a\", \"b\"]"
    );
    assert_eq!(
        mistake(&format!("default = \"c\"\n{tiers}")),
        "p.toml:1: default = \"c\": expected one of the tiers: [\"a\", \"b\"]"
    );
    parse(&format!("default = \"b\"\n{tiers}"));
    for text in ["", "default = \"a\"", "\n\n[tier]", "# nothing"] {
        let line = mistake(text);
        let expected = "p.toml:1: tier: missing: expected one section or more, such as [tier.free]";
        assert!(
            line == expected || text.contains("[tier]") && line.contains("expected one"),
            "{line}"
        );
    }
    assert_eq!(mistake("tier = 1"), "p.toml:1: tier = 1: expected a section, [tier]");
    assert_eq!(mistake("[[tier]]"), "p.toml:1: tier = a list: expected a section, [tier]");
    assert_eq!(mistake("\ntier.a = 1"), "p.toml:2: tier.a = 1: expected a section, [tier.a]");
}

#[test]
fn text_that_is_not_toml_is_told_with_its_line() {
    let line = mistake("[tier.a]\nlimit == 1");
    assert!(line.starts_with("p.toml:2: limit == 1: not TOML: extra `=`"), "{line}");
    let lines = mistakes("[tier.a]\nblocked = true\n[tier.a]\nblocked = true\n");
    assert_eq!(lines[0], "p.toml:3: [tier.a]: not TOML: duplicate key");
    let line = mistake(&tier("burst = 3\nburst = 4"));
    assert_eq!(line, "p.toml:6: burst = 4: not TOML: duplicate key");
    for (field, value) in [("algorithm", "token_bucket"), ("algorithm", "leaky"), ("period", "1m")]
    {
        let line = mistake(&with(field, value));
        assert!(line.contains(&format!(": {field} = {value}: not TOML: ")), "{line}");
        assert!(line.ends_with(" (names and periods stand in quotes)"), "{line}");
    }
}

#[test]
fn a_line_that_is_not_toml_hides_no_other() {
    let lines = mistakes(&format!("max_clients = 0\ndefault = \"a\n{}", tier("burst = 0")));
    assert_eq!(lines.len(), 3, "{lines:#?}");
    assert!(lines[0].starts_with("p.toml:1: max_clients = 0: expected"), "{}", lines[0]);
    assert!(lines[1].starts_with("p.toml:2: default = \"a: not TOML: "), "{}", lines[1]);
    assert!(lines[2].starts_with("p.toml:7: tier.a.burst = 0: expected"), "{}", lines[2]);
}

#[test]
fn all_mistakes_are_told_in_the_order_of_their_lines() {
    let text = r#"default = "gold"
max_client = 5
[tier.free]
algorithm = "token_bucket"
limit = 0
period = "1 minute"
[global]
algorithm = "leaky_bucket"
limit = 5
period = "1s"
burst = 3
"#;
    let error = Policies::from_toml("p.toml", text).unwrap_err();
    let places: Vec<_> =
        error.mistakes().iter().map(|m| (m.line.unwrap(), m.field.as_deref().unwrap())).collect();
    assert_eq!(
        places,
        [
            (1, "default"),
            (2, "max_client"),
            (5, "tier.free.limit"),
            (6, "tier.free.period"),
            (11, "global.burst")
        ]
    );
    assert_eq!(error.mistakes()[3].value.as_deref(), Some("\"1 minute\""));
    assert_eq!(error.file(), "p.toml");
}

#[test]
fn windows_line_ends_and_a_byte_order_mark_are_no_mistakes() {
    parse(&format!("\u{feff}{}", SOUND.replace('\n', "\r\n")));
    assert!(mistake(&with("limit", "0").replace('\n', "\r\n")).starts_with("p.toml:3: "));
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let folder = tempfile("files");
    let path = folder.join("p.toml");
    let name = path.display();
    let error = || Policies::from_file(&path).unwrap_err().to_string();
    let absent = error();
    assert!(absent.starts_with(&format!("{name}: ")), "{absent}");
    assert!(absent.ends_with(": expected a TOML file"), "{absent}");

    fs::write(&path, b"[tier.a]\nblocked = \xff").unwrap();
    assert_eq!(error(), format!("{name}:2: not UTF-8: expected a TOML file"));
    fs::write(&path, with("limit", "0")).unwrap();
    assert!(error().starts_with(&format!("{name}:3: tier.a.limit = 0: ")));
    fs::write(&path, SOUND).unwrap();
    assert_eq!(Policies::from_file(&path).unwrap(), parse(SOUND));
    fs::remove_dir_all(folder).unwrap();
}

/// A folder of its own for one test.
fn tempfile(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("tollgate-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

// Several limits

fn stack(text: &str) -> Result<String, String> {
    let text = format!("[tier.a]\n{text}");
    let read = Policies::from_toml("p.toml", &text);
    read.map(|policies| policies.tiers().next().unwrap().1.to_string())
        .map_err(|error| error.to_string())
}

const SECOND: &str =
    "[tier.a.limits.second]\nalgorithm = 'token_bucket'\nlimit = 10\nperiod = '1s'\n";

#[test]
fn several_limits_are_one_policy() {
    let text = format!("carry_over = 'reset'\n{SECOND}[tier.a.limits.open]\nin_flight = 3\n");
    let printed = "open: 3 in flight; second: 10 per 1s, token bucket, reset on change";
    assert_eq!(stack(&text).unwrap(), printed);
    let text = format!("{SECOND}counts = 'requests'\nenforced = 0\n");
    let printed = "second: 10 per 1s, token bucket, counting requests, in shadow";
    assert_eq!(stack(&text).unwrap(), printed);
    assert_eq!(stack("in_flight = 7").unwrap(), "7 in flight");
}

#[test]
fn every_mistake_in_several_limits_is_told() {
    let told = |text: &str| stack(text).unwrap_err();
    assert_eq!(
        told(&format!("{SECOND}counts = 'bytes'\nenforced = 101\nunlimited = true\n")),
        "p.toml:6: tier.a.limits.second.counts = 'bytes': expected \"cost\" or \"requests\"\n\
         p.toml:7: tier.a.limits.second.enforced = 101: expected a whole number, 0 to 100: the \
         percentage of clients; 0 is shadow\n\
         p.toml:8: tier.a.limits.second.unlimited = true: unknown: accepted here are algorithm, \
         limit, period, burst, queue, anchor, in_flight, counts, enforced"
    );
    assert_eq!(
        told(&format!("limit = 5\nunlimited = false\n{SECOND}")),
        "p.toml:2: tier.a.limit = 5: expected without limits\n\
         p.toml:3: tier.a.unlimited = false: expected without limits"
    );
    assert_eq!(
        told("in_flight = 0\n"),
        "p.toml:2: tier.a.in_flight = 0: expected a whole number, 1 to 2147483647"
    );
    assert_eq!(
        told("in_flight = 4\nperiod = '1s'\n"),
        "p.toml:3: tier.a.period = '1s': expected without in_flight"
    );
    assert_eq!(
        told("unlimited = true\nin_flight = 4\n"),
        "p.toml:3: tier.a.in_flight = 4: expected without unlimited"
    );
    assert_eq!(
        told("limits = 3\n"),
        "p.toml:2: tier.a.limits = 3: expected a section, [tier.a.limits]"
    );
    assert_eq!(
        told("[tier.a.limits]\n"),
        "p.toml:2: tier.a.limits = a section: no limits: expected 1 to 6"
    );
    let seven: String =
        (1..=7).map(|name| format!("[tier.a.limits.n{name}]\nin_flight = {name}\n")).collect();
    assert_eq!(told(&seven), "p.toml:2: tier.a.limits = a section: 7 limits: expected 1 to 6");
    assert_eq!(
        told("in_flight = 1\n[global.limits.g]\nin_flight = 9\nenforced = 50\n"),
        "p.toml:3: global.limits = a section: expected enforced = 0 or 100 here: a share of \
         clients has no cap"
    );
}
