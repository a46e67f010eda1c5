//! Whatever a file of policies holds, it gets an answer, and never a panic.
#![cfg(feature = "config")]

use proptest::prelude::*;
use tollgate::Policies;

/// One of everything.
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

/// Whatever the text is: an answer, with a line of the text for each mistake.
fn answers(text: &str) {
    if let Err(error) = Policies::from_toml("p.toml", text) {
        assert!(!error.mistakes().is_empty());
        assert_eq!(error.to_string().lines().count(), error.mistakes().len());
        let last = 1 + text.matches('\n').count();
        assert!(error.mistakes().iter().all(|m| m.line.is_some_and(|line| line <= last)));
        assert!(error.mistakes().is_sorted_by_key(|mistake| mistake.line));
    }
}

/// A name or a value that may stand in a file, or nearly.
fn token() -> impl Strategy<Value = String> {
    let words = "default|max_clients|when_full|tier|global|algorithm|limit|period|burst|queue|anchor\
                 |carry_over|unlimited|blocked|a|true|false|0|1|-1|1.5|18446744073709551615\
                 |99999999999999999999|\"1s\"|\"0s\"|\"99999999999d\"|\"token_bucket\"|\"leaky_bucket\"\
                 |\"fixed_window\"|\"sliding_counter\"|\"first_request\"|\"admit\"|\"reset\"|\"a\"";
    let signs = "[=.,#'\"\n\\[\\]{} ]|\n\\[|\\]\n|\\[tier\\.a\\]\n| = ";
    prop_oneof![words, signs].prop_map(|token: String| token)
}

proptest! {
    #[test]
    fn any_text_gets_an_answer(text in any::<String>()) {
        answers(&text);
    }

    #[test]
    fn any_tokens_get_an_answer(tokens in prop::collection::vec(token(), 0..60)) {
        answers(&tokens.concat());
    }

    #[test]
    fn a_mutated_file_gets_an_answer(
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0..20_usize, token()), 1..6),
    ) {
        let mut text: Vec<char> = SOUND.chars().collect();
        for (at, length, token) in cuts {
            let at = at.index(text.len() + 1);
            let end = text.len().min(at + length);
            text.splice(at..end, token.chars());
        }
        answers(&text.into_iter().collect::<String>());
    }

    #[test]
    fn any_numbers_get_an_answer(
        kind in prop::sample::select(ALGORITHMS.to_vec()),
        limit in edge(),
        period in edge(),
        unit in prop::sample::select(vec!["ns", "us", "ms", "s", "m", "h", "d"]),
        extra in prop::option::of(edge()),
    ) {
        let extra = match (kind, extra) {
            ("token_bucket", Some(burst)) => format!("burst = {burst}"),
            ("leaky_bucket", Some(queue)) => format!("queue = {queue}"),
            _ => String::new(),
        };
        let text = format!(
            "[tier.a]\nalgorithm = \"{}\"\nlimit = {limit}\nperiod = \"{period}{unit}\"\n{extra}",
            kind,
        );
        answers(&text);
    }
}

/// Numbers of every magnitude, and those at the ends.
fn edge() -> impl Strategy<Value = u64> {
    let sizes = (any::<u64>(), 0..64_u32).prop_map(|(bits, shift)| bits >> shift);
    prop_oneof![sizes, Just(0), Just(1), Just(u64::MAX), Just(u64::MAX - 1)]
}
