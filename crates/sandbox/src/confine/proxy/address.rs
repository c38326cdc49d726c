//! Connects to a host through checked addresses.

use super::{Denial, Stop, request::Target};
use llm_do_core::authority::{Domain, Host};
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};
use tokio::{net::TcpStream, time::timeout};

/// Time limit for looking up a host, and for connecting to each of its addresses.
const PATIENCE: Duration = Duration::from_secs(15);

/// Connects to one of the target's addresses that may be used.
pub(super) async fn connect(target: &Target, list: &[Domain]) -> Result<TcpStream, Stop> {
    let Target { host, port } = target;
    let unreachable = |reason: String| Stop::Unreachable(format!("`{host}` can't be reached: {reason}"));
    let found = match timeout(PATIENCE, find(host)).await {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => return Err(unreachable(format!("it was not found ({error})"))),
        Err(_) => return Err(unreachable("to find it took too long".into())),
    };
    let mut last = "it has no address".to_owned();
    for address in permitted(target, &found, list).map_err(Stop::Denied)? {
        match timeout(PATIENCE, TcpStream::connect(SocketAddr::new(address, *port))).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error.to_string(),
            Err(_) => last = "it does not answer".into(),
        }
    }
    Err(unreachable(last))
}

async fn find(host: &Host) -> io::Result<Vec<IpAddr>> {
    match host {
        Host::Address(address) => Ok(vec![*address]),
        Host::Name(name) if name == LOCALHOST => Ok(THIS_MACHINE.to_vec()),
        Host::Name(name) => {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip().to_canonical()).collect())
        }
    }
}

/// The name of this machine. It is not looked up.
const LOCALHOST: &str = "localhost";
const THIS_MACHINE: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// Returns the addresses of a target to which the proxy may connect. The target itself is on the list.
fn permitted(target: &Target, found: &[IpAddr], list: &[Domain]) -> Result<Vec<IpAddr>, Denial> {
    let Target { host, port } = target;
    let names_this_machine = *host == Host::Name(LOCALHOST.into());
    let may = |address: &&IpAddr| {
        is_public(**address)
            || list.iter().any(|entry| entry.admits(&Host::Address(**address), *port))
            || (names_this_machine && THIS_MACHINE.contains(*address))
    };
    let permitted: Vec<IpAddr> = found.iter().filter(may).copied().collect();
    match found.first() {
        Some(&address) if permitted.is_empty() => {
            Err(Denial::Local { host: host.clone(), address, port: *port })
        }
        _ => Ok(permitted),
    }
}

/// Returns true if an address certainly belongs to the public internet, by IANA's registries of special-purpose
/// addresses.
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !matches!(
        (a, b, c),
        (0 | 10 | 127 | 224.., _, _)
            | (100, 64..=127, _) // shared by carriers
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (192, 168, _)
            | (198, 18 | 19, _)
            | (198, 51, 100)
            | (203, 0, 113)
    )
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, g, h] = address.segments();
    // In networks that translate to IPv4, the IPv4 address inside counts (RFC 6052).
    if (a, b, c, d, e, f) == (0x64, 0xff9b, 0, 0, 0, 0) {
        let ([one, two], [three, four]) = (g.to_be_bytes(), h.to_be_bytes());
        return is_public_v4(Ipv4Addr::new(one, two, three, four));
    }
    // Global unicast, without protocol assignments (Teredo among them), documentation and 6to4.
    a & 0xe000 == 0x2000
        && !(a == 0x2001 && b < 0x200)
        && (a, b) != (0x2001, 0xdb8)
        && a != 0x2002
        && !(a == 0x3fff && b < 0x1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_public() {
        for public in [
            "1.1.1.1",
            "93.184.216.34",
            "172.15.0.1",
            "172.32.0.1",
            "100.63.0.1",
            "100.128.0.1",
            "192.0.1.1",
            "198.17.0.1",
            "223.255.255.255",
            "::ffff:1.1.1.1",
            "2606:4700::1",
            "2a00::1",
            "2001:4860::8888",
            "64:ff9b::101:101",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for local in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:1ff::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "3fff:fff::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "5f00::1",
        ] {
            assert!(!is_public(local.parse().unwrap()), "{local}");
        }
    }

    #[test]
    fn a_name_that_leads_to_a_local_address_does_not_open_it() {
        let list = |entries: &[&str]| -> Vec<Domain> {
            entries.iter().map(|entry| Domain::parse(entry).unwrap()).collect()
        };
        let target = |text: &str| {
            let (host, port) = Host::with_port(text).unwrap();
            Target { host, port: port.unwrap() }
        };
        let addresses = |of: &[&str]| -> Vec<IpAddr> { of.iter().map(|ip| ip.parse().unwrap()).collect() };
        let evil = list(&["evil.net", "evil.net:8080"]);
        for address in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00::1", "0.0.0.0"] {
            let denial = permitted(&target("evil.net:443"), &addresses(&[address]), &evil).unwrap_err();
            assert!(matches!(denial, Denial::Local { .. }), "{denial}");
            assert!(denial.to_string().contains(address), "{denial}");
        }
        let mixed = addresses(&["127.0.0.1", "93.184.216.34", "::1"]);
        let left = permitted(&target("evil.net:443"), &mixed, &evil);
        assert_eq!(left, Ok(addresses(&["93.184.216.34"])));
        assert_eq!(permitted(&target("evil.net:443"), &[], &evil), Ok(Vec::new()));

        // Only an entry of the list for this address and port allows it.
        let both = list(&["intranet.corp", "10.0.0.1", "127.0.0.1:8080"]);
        let here = addresses(&["10.0.0.1", "127.0.0.1"]);
        assert_eq!(permitted(&target("intranet.corp:443"), &here, &both), Ok(addresses(&["10.0.0.1"])));
        let local = addresses(&["127.0.0.1", "::1"]);
        assert_eq!(
            permitted(&target("localhost:8080"), &local, &list(&["localhost:8080"])),
            Ok(local.clone())
        );
        assert!(permitted(&target("localhost.evil.net:8080"), &local, &list(&["*.evil.net:8080"])).is_err());
    }

    #[tokio::test]
    async fn this_machine_is_asked_of_nobody() {
        let (host, _) = Host::with_port("localhost").unwrap();
        assert_eq!(find(&host).await.unwrap(), THIS_MACHINE);
    }
}
