//! Counts on a sample of a real log, against a computation of their own:
//!
//! ```python
//! import re
//! from collections import Counter
//! from datetime import datetime
//! at = lambda text: int(datetime.strptime(text, '%d/%b/%Y:%H:%M:%S %z').timestamp())
//! lines = [re.match(r'(\S+) .*?\[(.*?)\]', line) for line in open('tests/data/access.log')]
//! log = sorted([(at(m[2]), m[1]) for m in lines], key=lambda request: request[0])
//! def trial(admits):                         # admits changes the client's state if it says yes
//!     states = {}
//!     refused = Counter(c for t, c in log if not admits(states.setdefault(c, []), t))
//!     print(refused.total(), len(refused), refused.most_common(1))
//! def window(s, t, limit, start):            # s: the times admitted
//!     return sum(x >= start for x in s) < limit and not s.append(t)
//! def bucket(s, t, limit, period, burst):    # s: when it is full again, in periods / limit
//!     full = max(s[-1] if s else 0, t * limit)
//!     return full + period <= t * limit + burst * period and not s.append(full + period)
//! def counter(s, t, limit, period):
//!     now, before = (sum(x // period == t // period - n for x in s) for n in (0, 1))
//!     used = now * period + before * (period - t % period)
//!     return used + period <= limit * period and not s.append(t)
//! trial(lambda s, t: window(s, t, 5, t // 20 * 20))
//! trial(lambda s, t: window(s, t, 5, t - 19))
//! trial(lambda s, t: counter(s, t, 5, 20))
//! for burst in 5, 2, 1, 4: trial(lambda s, t: bucket(s, t, 5, 20, burst))
//! ```
//!
//! A queue of 3 in a leaky bucket admits what a burst of 4 does. For the smallest limits each limit
//! from 1 on was tried by the same functions, until few enough clients were refused.

use serde_json::{Value, json};

use super::{SAMPLE, replay};

fn trial(arguments: &[&str]) -> Value {
    let report = replay(&[&[SAMPLE, "--limit", "5/20s"], arguments].concat(), b"");
    report["policies"][0].clone()
}

/// Refused requests, refused clients, and how often the most refused one was.
#[test]
fn refusals_are_those_of_the_oracle() {
    for (arguments, refused, clients, most) in [
        (&["--algorithm", "fixed_window"][..], 118, 11, 29),
        (&["--algorithm", "sliding_log"], 131, 15, 30),
        (&["--algorithm", "sliding_counter"], 150, 15, 34),
        (&["--algorithm", "token_bucket"], 79, 7, 21),
        (&["--algorithm", "token_bucket", "--burst", "2"], 129, 22, 29),
        (&["--algorithm", "leaky_bucket"], 287, 73, 35),
        (&["--algorithm", "leaky_bucket", "--queue", "3"], 88, 8, 23),
    ] {
        let policy = trial(arguments);
        assert_eq!(policy["requests"], 1200, "{arguments:?}");
        assert_eq!(policy["refused"], refused, "{arguments:?}");
        assert_eq!(policy["admitted"], 1200 - refused, "{arguments:?}");
        assert_eq!(policy["clients_refused"], clients, "{arguments:?}");
        assert_eq!(policy["most_refused"][0]["key"], "10.0.0.105", "{arguments:?}");
        assert_eq!(policy["most_refused"][0]["refused"], most, "{arguments:?}");
    }
}

#[test]
fn the_log_and_the_worst_minute_are_those_of_the_oracle() {
    let report = replay(&[SAMPLE, "--limit", "5/20s", "--algorithm", "fixed_window"], b"");
    let expected = json!({
        "lines": 1200, "unreadable": 0, "out_of_order": 1122, "without_key": 0, "requests": 1200,
        "clients": 270, "first": "2015-05-17T10:05:00Z", "last": report["log"]["last"],
    });
    assert_eq!(report["log"], expected);
    let expected = json!({
        "begin": "2015-05-17T13:05:00Z", "requests": 118, "admitted": 78, "refused": 40,
    });
    assert_eq!(report["policies"][0]["worst_minute"], expected);
}

#[test]
fn the_smallest_limits_are_those_of_the_oracle() {
    for (algorithm, nobody, one_percent, five_percent) in [
        ("fixed_window", 16, 14, 5),
        ("sliding_log", 18, 16, 6),
        ("sliding_counter", 18, 17, 6),
        ("token_bucket", 11, 11, 4),
    ] {
        let percents = ["--percent", "0", "--percent", "1", "--percent", "5"];
        let policy = trial(&[&["--algorithm", algorithm], &percents[..]].concat());
        let limits = policy["smallest_limit"].as_array().unwrap();
        let limits: Vec<_> = limits.iter().map(|smallest| smallest["limit"].as_u64()).collect();
        let expected = [Some(nobody), Some(one_percent), Some(five_percent)];
        assert_eq!(limits, expected, "{algorithm}");
    }
}

/// One more than the smallest is enough as well; one less is not.
#[test]
fn the_smallest_limit_is_a_boundary() {
    let refused = |algorithm: &str, limit: u64| {
        let limit = format!("{limit}/20s");
        let report = replay(&[SAMPLE, "--limit", &limit, "--algorithm", algorithm], b"");
        report["policies"][0]["refused"].as_u64().unwrap()
    };
    for (algorithm, nobody) in [("sliding_log", 18), ("token_bucket", 11)] {
        assert!(refused(algorithm, nobody - 1) > 0);
        assert_eq!(refused(algorithm, nobody), 0);
        assert_eq!(refused(algorithm, nobody + 1), 0);
    }
}

/// Two requests in the same second pass no pace, and no larger limit helps a burst of 1.
#[test]
fn there_may_be_no_such_limit() {
    for arguments in [&["--algorithm", "leaky_bucket"][..], &["--burst", "1"]] {
        let policy = trial(&[arguments, &["--percent", "0", "--percent", "100"]].concat());
        assert_eq!(policy["smallest_limit"][0]["limit"], Value::Null, "{arguments:?}");
        assert_eq!(policy["smallest_limit"][1]["limit"], 1, "{arguments:?}");
    }
}

#[test]
fn algorithms_are_compared_on_the_same_log() {
    let report = replay(&[SAMPLE, "--limit", "5/20s", "--compare"], b"");
    let policies = report["policies"].as_array().unwrap();
    let refused: Vec<_> = policies.iter().map(|policy| policy["refused"].as_u64()).collect();
    assert_eq!(refused, [Some(118), Some(79), Some(150), Some(131), Some(287)]);
}
