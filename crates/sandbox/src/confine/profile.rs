//! Profiles of macOS's sandbox, as text. **Unverified**: tests check the text and not its effect on macOS.
//!
//! A profile never contains places. They are passed as parameters, so that a file name can't inject profile code.
//! Everything that is not allowed is denied.

use super::plan::Given;
use std::{ffi::OsString, fmt::Write, path::Path};

/// Places that every program may read: programs, libraries, frameworks, time zones and locales.
pub(super) const READABLE: [&str; 14] = [
    "/bin",
    "/sbin",
    "/usr",
    "/System",
    "/Library/Apple",
    "/Library/Developer",
    "/Applications/Xcode.app",
    "/opt/homebrew",
    "/opt/local",
    "/private/etc/localtime",
    "/private/etc/ssl",
    "/private/var/db/dyld",
    "/private/var/db/timezone",
    "/private/var/select",
];

/// Files for looking up hosts, readable with the network.
const NETWORK_READABLE: [&str; 3] =
    ["/private/etc/hosts", "/private/etc/resolv.conf", "/private/var/run/resolv.conf"];

/// Devices without data of users.
const DEVICES: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"];

/// Returns the arguments of `sandbox-exec` before the program's own: the profile and its parameters.
pub(super) fn arguments(places: &[Given], temporary: &Path, network: bool) -> Vec<OsString> {
    let mut parameters: Vec<(String, OsString)> = vec![("TEMPORARY".to_owned(), temporary.into())];
    let mut text = String::from(
        "(version 1)\n(deny default)\n(allow process-fork)\n(allow process-exec)\n(allow signal (target self))\n\
         (allow sysctl-read)\n(allow file-read-metadata)\n(allow file-read* (literal \"/\"))\n",
    );
    let mut allow = |what: &str, how: &str, place: &str| {
        // Writing into a text never fails.
        let _ = writeln!(text, "(allow {what} ({how} {place}))");
    };
    let system = READABLE.iter().chain(network.then_some(&NETWORK_READABLE).into_iter().flatten());
    for place in system {
        allow("file-read*", "subpath", &format!("\"{place}\""));
    }
    for device in DEVICES {
        allow("file-read* file-write-data", "literal", &format!("\"{device}\""));
    }
    allow("file-read* file-write*", "subpath", "(param \"TEMPORARY\")");
    for (number, given) in places.iter().enumerate() {
        let name = format!("PLACE{number}");
        let what = if given.write { "file-read* file-write*" } else { "file-read*" };
        allow(what, "subpath", &format!("(param \"{name}\")"));
        parameters.push((name, given.place.clone().into()));
    }
    if network {
        // Without the filter the rule would cover Unix sockets too, such as those of agents that hold keys.
        text.push_str(
            "(allow network-outbound (remote tcp) (remote udp) (literal \"/private/var/run/mDNSResponder\"))\n\
             (allow system-socket)\n(allow mach-lookup (global-name \"com.apple.dnssd.service\"))\n",
        );
    }
    // The last matching rule decides: no devices, no set-user-ID files, and no hard links to read-only files.
    text.push_str("(deny file-mknod)\n(deny file-write-setugid)\n(deny file-link)\n");
    let mut arguments: Vec<OsString> = vec!["-p".into(), text.into()];
    for (name, place) in parameters {
        let mut value = OsString::from(format!("{name}="));
        value.push(place);
        arguments.extend(["-D".into(), value]);
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(places: &[(&str, bool)], network: bool) -> (String, Vec<String>) {
        let places: Vec<Given> =
            places.iter().map(|(place, write)| Given { place: place.into(), write: *write }).collect();
        let arguments = arguments(&places, Path::new("/tmp/own"), network);
        let mut texts = arguments.into_iter().map(|text| text.to_string_lossy().into_owned());
        assert_eq!(texts.next().as_deref(), Some("-p"));
        (texts.next().expect("a profile"), texts.collect())
    }

    #[test]
    fn what_is_not_allowed_is_denied() {
        let (text, parameters) = profile(&[], false);
        assert!(text.starts_with("(version 1)\n(deny default)\n"), "{text}");
        assert!(!text.contains("network"), "{text}");
        let writable: Vec<&str> = text.lines().filter(|line| line.contains("file-write*")).collect();
        assert_eq!(writable, ["(allow file-read* file-write* (subpath (param \"TEMPORARY\")))"]);
        assert_eq!(parameters, ["-D", "TEMPORARY=/tmp/own"]);
        for place in ["/Users", "/Volumes", "/private/var/folders", "/private/tmp", "/Library/Keychains"] {
            assert!(!text.contains(place), "{place}");
        }
    }

    #[test]
    fn places_are_given_with_what_may_be_done_there() {
        let (text, parameters) = profile(&[("/Users/ada/notes", false), ("/Users/ada/out", true)], false);
        assert!(text.contains("(allow file-read* (subpath (param \"PLACE0\")))\n"), "{text}");
        assert!(text.contains("(allow file-read* file-write* (subpath (param \"PLACE1\")))\n"), "{text}");
        assert_eq!(parameters[2..], ["-D", "PLACE0=/Users/ada/notes", "-D", "PLACE1=/Users/ada/out"]);
    }

    #[test]
    fn no_name_of_a_file_says_anything_in_a_profile() {
        let evil = "/x\")) (allow default) (allow file-read* (subpath \"/";
        let (text, parameters) = profile(&[(evil, true)], false);
        assert_eq!(text, profile(&[("/harmless", true)], false).0);
        assert_eq!(parameters[3], format!("PLACE0={evil}"));
    }

    #[test]
    fn the_network_is_there_or_not() {
        let (text, _) = profile(&[], true);
        assert!(text.contains("(allow network-outbound (remote tcp) (remote udp) (literal "), "{text}");
        assert!(!text.contains("(allow network-outbound)"), "Unix sockets stay closed: {text}");
        assert!(text.contains("/private/etc/resolv.conf"), "{text}");
        assert!(!text.contains("network-inbound"), "{text}");
    }

    #[test]
    fn what_is_denied_at_last_is_denied_everywhere() {
        let (text, _) = profile(&[("/Users/ada/out", true)], true);
        let last: Vec<&str> = text.lines().rev().take(3).collect();
        assert_eq!(last, ["(deny file-link)", "(deny file-write-setugid)", "(deny file-mknod)"]);
    }
}
