//! Client keys from requests, and what a client can do to forge one.
#![cfg(feature = "http")]

use std::net::{IpAddr, SocketAddr};

use http::Request;
use http::header::{HeaderName, HeaderValue};
use http::request::Parts;
use proptest::prelude::*;
use tollgate::http::{
    BadNetwork, EitherKey, ForwardedFor, HeaderKey, KeyOf, Network, Path, PeerAddress, Prefixes,
    Trust,
};

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// A request for `/` of this peer, with these fields.
fn request(peer: &str, fields: &[(&str, &str)]) -> Parts {
    let bytes: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    request_of_bytes(peer, &bytes)
}

fn request_of_bytes(peer: &str, fields: &[(&str, &[u8])]) -> Parts {
    let peer: IpAddr = peer.parse().unwrap();
    let mut request = Request::builder().extension(SocketAddr::new(peer, 4321));
    for (name, value) in fields {
        request = request.header(*name, HeaderValue::from_bytes(value).unwrap());
    }
    request.body(()).unwrap().into_parts().0
}

fn path(path: &str) -> Parts {
    Request::get(path).body(()).unwrap().into_parts().0
}

fn network(text: &str) -> Network {
    text.parse().unwrap()
}

fn networks(texts: &[&str]) -> Trust {
    Trust::Networks(texts.iter().map(|text| network(text)).collect())
}

#[allow(clippy::needless_pass_by_value, reason = "a key is made where it is asked")]
fn client_of(key: impl KeyOf<Key = Network>, request: &Parts) -> Option<String> {
    key.key_of(request).map(|network| network.to_string())
}

fn some(client: &str) -> Option<String> {
    Some(client.to_owned())
}

#[test]
fn a_peer_is_a_network() {
    let client = |peer| client_of(PeerAddress::new(), &request(peer, &[])).unwrap();
    assert_eq!(client("192.0.2.7"), "192.0.2.7/32");
    assert_eq!(client("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
    assert_eq!(client("2001:db8:1:2::"), client("2001:db8:1:2:ffff:ffff:ffff:ffff"));
    assert_ne!(client("2001:db8:1:2::1"), client("2001:db8:1:3::1"));
    assert_eq!(client("::1"), "::/64");
}

#[test]
fn a_mapped_address_is_the_ipv4_address_however_it_is_spelt() {
    let client = |peer| client_of(PeerAddress::new(), &request(peer, &[])).unwrap();
    for spelling in ["::ffff:192.0.2.7", "::ffff:c000:207", "0:0:0:0:0:FFFF:C000:0207"] {
        assert_eq!(client(spelling), "192.0.2.7/32");
    }
    // An address that only looks like one is none: it was never IPv4.
    assert_eq!(client("::192.0.2.7"), "::/64");
    assert_eq!(client("::fffe:192.0.2.7"), "::/64");
    assert_eq!(network("::ffff:10.1.2.3"), network("10.1.2.3"));
    assert!(network("10.0.0.0/8").contains("::ffff:10.1.2.3".parse().unwrap()));
    assert!(!network("::/0").contains("::ffff:10.1.2.3".parse().unwrap()));
}

#[test]
fn prefixes_are_bounded_and_may_be_all_or_nothing() {
    let cut = |v4, v6, address: &str| {
        Prefixes::new(v4, v6).map(|prefixes| prefixes.cut(address.parse().unwrap()).to_string())
    };
    assert_eq!(cut(0, 0, "192.0.2.7").unwrap(), "0.0.0.0/0");
    assert_eq!(cut(0, 0, "2001:db8::1").unwrap(), "::/0");
    assert_eq!(cut(24, 128, "192.0.2.7").unwrap(), "192.0.2.0/24");
    assert_eq!(cut(32, 128, "2001:db8::1").unwrap(), "2001:db8::1/128");
    assert_eq!(cut(33, 64, "::"), Err(BadNetwork::Prefix { given: 33, max: 32 }));
    let error = Prefixes::new(32, 129).unwrap_err();
    assert_eq!(error.to_string(), "prefix 129: expected at most 128 bits");
}

#[test]
fn what_is_no_network_is_told() {
    for text in ["", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/256", "10.0.0/8", "host/8"] {
        let error = text.parse::<Network>().unwrap_err();
        assert_eq!(error, BadNetwork::Text(text.to_owned()), "{text}");
        assert!(error.to_string().contains("expected an IP address"), "{error}");
    }
    for (text, max) in [("10.0.0.0/33", 32), ("2001:db8::/129", 128), ("::ffff:10.0.0.0/33", 32)] {
        let error = text.parse::<Network>().unwrap_err();
        assert!(matches!(error, BadNetwork::Prefix { max: told, .. } if told == max), "{text}");
    }
    assert_eq!(network("10.1.2.3/8").to_string(), "10.0.0.0/8");
}

#[test]
fn a_server_without_a_socket_address_has_its_own_extension() {
    #[derive(Clone)]
    struct Accepted(IpAddr);
    let key = PeerAddress::from_extension(|Accepted(peer): &Accepted| Some(*peer))
        .prefixes(Prefixes::new(16, 48).unwrap());
    let accepted = Accepted("192.0.2.7".parse().unwrap());
    let request = Request::builder().extension(accepted).body(()).unwrap().into_parts().0;
    assert_eq!(client_of(key.clone(), &request), some("192.0.0.0/16"));
    assert_eq!(client_of(key, &path("/")), None);
}

#[test]
fn hops_are_counted_from_the_right() {
    let fields =
        [("x-forwarded-for", "198.51.100.1, 203.0.113.7"), ("x-forwarded-for", "10.0.0.1")];
    let request = request("10.0.0.2", &fields);
    let client = |hops| client_of(ForwardedFor::x_forwarded_for(Trust::Hops(hops)), &request);
    assert_eq!(client(0), some("10.0.0.2/32"));
    assert_eq!(client(1), some("10.0.0.1/32"));
    assert_eq!(client(2), some("203.0.113.7/32"));
    assert_eq!(client(3), some("198.51.100.1/32"));
    assert_eq!(client(4), None, "fewer proxies than there should be");
    assert_eq!(client(usize::MAX), None);
}

#[test]
fn whom_nobody_trusts_is_believed_nothing() {
    let fields = [("x-forwarded-for", "10.0.0.9, 127.0.0.1"), ("forwarded", "for=10.0.0.9")];
    let stranger = request("203.0.113.7", &fields);
    let trust = networks(&["10.0.0.0/8", "127.0.0.0/8"]);
    let x_forwarded_for = ForwardedFor::x_forwarded_for(trust.clone());
    assert_eq!(client_of(x_forwarded_for, &stranger), some("203.0.113.7/32"));
    assert_eq!(client_of(ForwardedFor::forwarded(trust), &stranger), some("203.0.113.7/32"));
}

#[test]
fn trusted_networks_are_passed_from_the_right() {
    let trust = networks(&["10.0.0.0/8", "2001:db8:1::/48"]);
    let client = |fields: &[(&str, &str)]| {
        client_of(ForwardedFor::x_forwarded_for(trust.clone()), &request("10.0.0.1", fields))
    };
    let made_up = "1.1.1.1, 10.9.9.9, 203.0.113.7, 2001:db8:1::5, ::ffff:10.0.0.2";
    assert_eq!(client(&[("x-forwarded-for", made_up)]), some("203.0.113.7/32"));
    // The client is one of ours: the last that is vouched for.
    assert_eq!(client(&[("x-forwarded-for", "10.0.0.3, 10.0.0.2")]), some("10.0.0.3/32"));
    assert_eq!(client(&[]), some("10.0.0.1/32"));
    // A trusted proxy that does not know whom it serves.
    assert_eq!(client(&[("x-forwarded-for", "203.0.113.7, unknown, 10.0.0.2")]), None);
}

#[test]
fn each_way_to_write_an_address_is_read() {
    let told = |field, text: &str| {
        let key = match field {
            "forwarded" => ForwardedFor::forwarded(Trust::Hops(1)),
            _ => ForwardedFor::x_forwarded_for(Trust::Hops(1)),
        };
        client_of(key, &request("10.0.0.1", &[(field, text)]))
    };
    for text in ["192.0.2.7", "192.0.2.7:80", " 192.0.2.7\t", "::ffff:192.0.2.7", "x, 192.0.2.7, "]
    {
        assert_eq!(told("x-forwarded-for", text), some("192.0.2.7/32"), "{text}");
    }
    for text in ["2001:db8::7", "[2001:db8::7]", "[2001:db8::7]:80"] {
        assert_eq!(told("x-forwarded-for", text), some("2001:db8::/64"), "{text}");
    }
    for text in [
        "for=192.0.2.7",
        "For=\"192.0.2.7:80\"",
        "proto=https; FOR=192.0.2.7 ;by=10.0.0.1",
        "for=\"192.0.2.7:_port\"",
        "for=\"\\192.0.2.7\"",
        "by=\"a,b;for=1.1.1.1\";for=192.0.2.7",
    ] {
        assert_eq!(told("forwarded", text), some("192.0.2.7/32"), "{text}");
    }
    assert_eq!(told("forwarded", "for=\"[2001:db8::7]:80\""), some("2001:db8::/64"));
    for text in [
        "",
        ",",
        "for",
        "192.0.2.7",
        "for=",
        "for=unknown",
        "for=_hidden",
        "for=\"1.1.1.1",
        "for=1.1.1.1;for=2.2.2.2",
        "for=\"[2001:db8::7\"",
        "for=\"[2001:db8::7]x\"",
        "by=1.1.1.1",
    ] {
        assert_eq!(told("forwarded", text), None, "{text}");
    }
    for text in ["", "_hidden", "1.1.1.1.1", "[1.1.1.1]", "1.1.1", "1.1.1.1;2.2.2.2"] {
        assert_eq!(told("x-forwarded-for", text), None, "{text}");
    }
}

#[test]
fn a_quote_left_open_does_not_swallow_what_the_proxy_appends() {
    let key = || ForwardedFor::forwarded(Trust::Hops(1));
    for made_up in ["for=\"", "for=\"1.1.1.1, for=2.2.2.2", "for=\"\\", "\"\"\"", "for=\"\\\"\\\\"]
    {
        let appended = format!("{made_up}, for=203.0.113.7");
        let request = request("10.0.0.1", &[("forwarded", &appended)]);
        assert_eq!(client_of(key(), &request), some("203.0.113.7/32"), "{made_up}");
        let appended = format!("{made_up},for=\"[2001:db8::7]:80\";proto=\"a\\\"b\\\\\"");
        let request = request_of_bytes("10.0.0.1", &[("forwarded", appended.as_bytes())]);
        assert_eq!(client_of(key(), &request), some("2001:db8::/64"), "{made_up}");
    }
}

proptest! {
    /// Whatever a client writes, in the line that the proxy appends to or in lines before it, the
    /// client is the one that the proxy saw.
    #[test]
    fn what_a_client_writes_changes_nothing(
        written in proptest::collection::vec("[ -~\t\u{80}-\u{ff}]{0,40}", 0..4),
        appended_to_last in any::<bool>(),
    ) {
        let written: Vec<Vec<u8>> =
            written.iter().map(|line| line.chars().map(|char| char as u8).collect()).collect();
        for (field, seen) in [
            ("x-forwarded-for", "203.0.113.7"),
            ("forwarded", "for=203.0.113.7;proto=https"),
            ("forwarded", "for=\"203.0.113.7:80\";by=\"a, \\\" b\""),
        ] {
            let mut lines = written.clone();
            match lines.last_mut() {
                Some(last) if appended_to_last => {
                    last.extend(b", ");
                    last.extend(seen.bytes());
                }
                _ => lines.push(seen.as_bytes().to_vec()),
            }
            let fields: Vec<_> = lines.iter().map(|line| (field, line.as_slice())).collect();
            let request = request_of_bytes("10.0.0.1", &fields);
            for trust in [Trust::Hops(1), networks(&["10.0.0.0/8"])] {
                let key = match field {
                    "forwarded" => ForwardedFor::forwarded(trust),
                    _ => ForwardedFor::x_forwarded_for(trust),
                };
                prop_assert_eq!(client_of(key, &request), some("203.0.113.7/32"));
            }
        }
    }
}

#[test]
fn a_header_value_is_a_key_unless_there_are_two() {
    let key = HeaderKey::new(API_KEY);
    let of = |fields: &[(&str, &str)]| key.key_of(&request("192.0.2.7", fields));
    assert_eq!(of(&[("x-api-key", "alice")]).unwrap().to_string(), "alice");
    assert_eq!(of(&[("x-api-key", "alice")]), of(&[("X-API-Key", "alice")]));
    assert_ne!(of(&[("x-api-key", "alice")]), of(&[("x-api-key", "Alice")]));
    assert_eq!(of(&[]), None);
    assert_eq!(of(&[("x-api-key", "")]), None);
    assert_eq!(of(&[("x-api-key", "alice"), ("x-api-key", "bob")]), None);
    assert_eq!(of(&[("x-api-key", "alice"), ("x-api-key", "alice")]), None);
    let bytes = key.key_of(&request_of_bytes("192.0.2.7", &[("x-api-key", b"a\xff")]));
    assert_eq!(bytes.unwrap().to_string(), "a\\xff");
}

#[test]
fn a_long_value_is_a_digest_that_others_cannot_know() {
    let key = HeaderKey::new(API_KEY);
    let of = |key: &HeaderKey, value: &str| {
        key.key_of(&request("192.0.2.7", &[("x-api-key", value)])).unwrap()
    };
    let (fits, long) = ("a".repeat(64), "a".repeat(65));
    assert_eq!(of(&key, &fits).to_string(), fits);
    let digest = of(&key, &long);
    assert!(digest.to_string().starts_with('#') && digest.to_string().len() == 33, "{digest}");
    assert_eq!(digest, of(&key, &long));
    assert_eq!(digest, of(&key.clone(), &long), "a clone has the same keys");
    assert_ne!(digest, of(&key, &format!("{long}a")));
    assert_ne!(digest, of(&HeaderKey::new(API_KEY), &long), "another has its own");
    // A short value that reads like the digest is not the same key.
    assert_ne!(digest, of(&key, &digest.to_string()));
    let secret = of(&HeaderKey::new(API_KEY).longest(0), "secret");
    assert!(!format!("{secret:?} {secret}").contains("secret"), "{secret:?}");
}

#[test]
fn a_path_is_a_key_whole_or_in_part() {
    let of = |key: Path, text| key.key_of(&path(text)).unwrap().to_string();
    assert_eq!(of(Path::new(), "/users/7/posts?page=2"), "/users/7/posts");
    assert_eq!(of(Path::new().segments(1), "/users/7/posts"), "/users");
    assert_eq!(of(Path::new().segments(2), "/users/7/posts"), "/users/7");
    assert_eq!(of(Path::new().segments(2), "/users"), "/users");
    assert_eq!(of(Path::new().segments(1), "http://host/"), "/");
    assert!(of(Path::new(), &format!("/{}", "a".repeat(64))).starts_with('#'));
}

#[test]
fn keys_combine() {
    let both = (PeerAddress::new(), HeaderKey::new(API_KEY));
    let with_key = request("192.0.2.7", &[("x-api-key", "alice")]);
    let without = request("192.0.2.7", &[]);
    let (peer, key) = both.key_of(&with_key).unwrap();
    assert_eq!((peer, key.to_string()), (network("192.0.2.7"), "alice".to_owned()));
    assert_eq!(both.key_of(&without), None, "a part is missing");

    let either = HeaderKey::new(API_KEY).or(PeerAddress::new());
    assert!(matches!(either.key_of(&with_key), Some(EitherKey::First(_))));
    assert_eq!(either.key_of(&without), Some(EitherKey::Second(network("192.0.2.7"))));
    assert_eq!(either.key_of(&path("/")), None);
    // Who sends another's address as a key is not that other.
    let forged = request("198.51.100.1", &[("x-api-key", "192.0.2.7/32")]);
    assert_ne!(either.key_of(&forged), either.key_of(&without));

    let route = |request: &Parts| Some(request.uri.path().len());
    let three = (route, PeerAddress::new(), Path::new());
    assert_eq!(three.key_of(&with_key).unwrap().0, 1);
}
