use super::*;
use crate::authority::Network;
use proptest::prelude::*;

fn domain(text: &str) -> Domain {
    Domain::parse(text).unwrap()
}

fn host(text: &str) -> Host {
    Host::with_port(text).unwrap().0
}

/// Entries of a small world in which they meet.
pub(in crate::authority) fn any_domain() -> impl Strategy<Value = Domain> {
    let host = prop::sample::select(vec![
        "org",
        "a.org",
        "B.org",
        "b.org",
        "x.a.org",
        "y.x.a.org",
        "*.org",
        "*.a.org",
        "*.x.a.org",
        "ba.org",
        "1.2.3.4",
        "[::1]",
    ]);
    let port = prop::sample::select(vec!["", "", ":80", ":443", ":8080"]);
    (host, port).prop_map(|(host, port)| domain(&format!("{host}{port}")))
}

#[test]
fn an_entry_names_its_host_and_with_a_star_what_is_below() {
    for (entry, named, others) in [
        (
            "example.org",
            &["example.org", "EXAMPLE.org"][..],
            &[
                "www.example.org",
                "example.org.evil.net",
                "notexample.org",
                "example.com",
                "org",
                "xample.org",
            ][..],
        ),
        (
            "*.Example.org",
            &["a.example.org", "a.b.example.org"],
            &["example.org", "aexample.org", "a.example.org.evil.net", "a.example.com", "1.2.3.4"],
        ),
        ("127.0.0.1", &["127.0.0.1", "[::ffff:127.0.0.1]"], &["127.0.0.2", "localhost", "[::1]"]),
        ("[::1]", &["[::1]", "[0:0::0001]"], &["localhost", "127.0.0.1", "[::2]"]),
        ("localhost", &["localhost"], &["127.0.0.1", "a.localhost", "localhost.evil.net"]),
        ("xn--bcher-kva.example", &["XN--BCHER-KVA.example"], &["bucher.example"]),
    ] {
        let entry = domain(entry);
        for name in named {
            assert!(entry.admits(&host(name), 443) && entry.admits(&host(name), 80), "{entry} {name}");
            assert!(!entry.admits(&host(name), 8080) && !entry.admits(&host(name), 22), "{entry} {name}");
        }
        for name in others {
            assert!(!entry.admits(&host(name), 443), "{entry} {name}");
        }
        assert_eq!(domain(&entry.to_string()), entry);
    }
    let entry = domain("example.org:8080");
    assert!(entry.admits(&host("example.org"), 8080));
    assert!(!entry.admits(&host("example.org"), 443) && !entry.admits(&host("example.org"), 80));
}

#[test]
fn what_is_no_host_is_refused() {
    for text in [
        "",
        ".",
        "*",
        "*.",
        "*.*.org",
        "a.*.org",
        "*a.org",
        "example.org.",
        ".example.org",
        "a..org",
        "bücher.example",
        "ex\u{ff41}mple.org",
        "https://example.org",
        "example.org/path",
        "user@example.org",
        "user:pass@example.org",
        "example.org:",
        "example.org:0",
        "example.org:65536",
        "example.org:+80",
        "example.org:80:80",
        "example.org: 80",
        " example.org",
        "example.org\n",
        "example.org%00.evil.net",
        "exam ple.org",
        "2130706433",
        "127.1",
        "0x7f000001",
        "0x7f.0.0.1",
        "127.0.0.0x1",
        "0177.0.0.1",
        "127.0.0.01",
        "1.2.3.4.",
        "1.2.3.4.5",
        "::1",
        "[::1",
        "[::1]x",
        "[::1%lo]",
        "[127.0.0.1]",
        "*.127.0.0.1",
        "*.[::1]",
        "0x",
        "a\0b.org",
    ] {
        assert!(Domain::parse(text).is_err(), "{text:?}");
        assert!(text.starts_with('*') || Host::with_port(text).is_err(), "{text:?}");
    }
    let long = format!("{}.org", "a".repeat(64));
    assert!(Domain::parse(&long).is_err() && Domain::parse(&long[1..]).is_ok());
    assert!(Domain::parse(["abcdefg."; 40].concat().trim_end_matches('.')).is_err());
    // A star is for lists; a request names one host.
    assert!(Host::with_port("*.example.org").is_err());
}

proptest! {
    #[test]
    fn two_entries_meet_in_what_both_name(a in any_domain(), b in any_domain(), one in any_domain()) {
        let Hosts::One(host) = &one.hosts else { return Ok(()) };
        for port in [80, 443, 8080] {
            let both = a.admits(host, port) && b.admits(host, port);
            prop_assert_eq!(a.meet(&b).is_some_and(|meet| meet.admits(host, port)), both);
        }
        prop_assert_eq!(a.meet(&b), b.meet(&a));
    }

    #[test]
    fn lists_narrow_to_what_both_allow(
        a in prop::collection::vec(any_domain(), 1..4),
        b in prop::collection::vec(any_domain(), 1..4),
        one in any_domain(),
    ) {
        let Hosts::One(host) = &one.hosts else { return Ok(()) };
        let narrowed = Network::Domains(a.clone()).narrow(&Network::Domains(b.clone()));
        let left = match &narrowed {
            Network::Domains(left) => left.as_slice(),
            _ => &[],
        };
        let admits = |list: &[Domain], port| list.iter().any(|entry| entry.admits(host, port));
        for port in [80, 443, 8080] {
            prop_assert_eq!(admits(left, port), admits(&a, port) && admits(&b, port));
        }
        prop_assert_eq!(narrowed.narrow(&narrowed), narrowed);
    }

    #[test]
    fn whatever_is_read_as_a_host_is_written_as_one(text in "[a-zA-Z0-9:.\\[\\]*@_-]{0,20}") {
        if let Ok((host, port)) = Host::with_port(&text) {
            let again = port.map_or(host.to_string(), |port| format!("{host}:{port}"));
            prop_assert_eq!(Host::with_port(&again), Ok((host, port)));
        }
    }
}
