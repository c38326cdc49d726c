//! The parts of the machine that every program needs to run, all of them read-only.

use std::path::{Path, PathBuf};

/// Programs and their libraries.
pub(super) const PROGRAMS: &[&str] =
    &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"];

/// Files in `/etc` that programs read. A root of our own has files of our own for users and hosts.
pub(super) const SETTINGS: &[&str] = &[
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/pki",
    "/etc/ssl",
];

/// Files for looking up hosts, readable with the network.
pub(super) const NETWORK_SETTINGS: &[&str] = &[
    "/etc/gai.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
];

/// Devices without data of users.
pub(super) const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Returns true for places that no process gets, regardless of its view: the kernel's own, and the whole machine.
pub(super) fn is_never_given(place: &Path) -> bool {
    place == Path::new("/") || ["/proc", "/sys", "/dev"].iter().any(|kernel| place.starts_with(kernel))
}

/// Returns all system places as paths.
pub(super) fn places(network: bool) -> Vec<PathBuf> {
    let network = if network { NETWORK_SETTINGS } else { &[] };
    [PROGRAMS, SETTINGS, network].concat().into_iter().map(PathBuf::from).collect()
}
