//! Packs the program's relative relocations where the C library that it is built beside can unpack them.
//!
//! The program lies anywhere in memory, so each address in its constant data is put right before `main`. Usually there are
//! 24 bytes in the file for each, over a megabyte in all that is read at every start. Packed (`DT_RELR`, which glibc has
//! had since 2.36) it is a bit for each. An older glibc would refuse to start what is packed, so `scripts/release` names
//! the oldest glibc that its program must start with in `LLM_DO_OLDEST_GLIBC`, and the linker that it uses cannot pack.

use std::{env, process::Command};

/// The first glibc that unpacks.
const UNPACKS: (u32, u32) = (2, 36);

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=LLM_DO_OLDEST_GLIBC");
    let is = |name: &str, wanted: &str| env::var(name).is_ok_and(|found| found == wanted);
    let native = env::var("HOST").ok() == env::var("TARGET").ok();
    let glibc = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    if native && glibc && version().is_some_and(|version| version >= UNPACKS) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The glibc that the program must start with: the one asked for, else this machine's, from a line like `glibc 2.36`.
fn version() -> Option<(u32, u32)> {
    if let Ok(asked) = env::var("LLM_DO_OLDEST_GLIBC") {
        return numbers(&asked);
    }
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let line = String::from_utf8(output.stdout).ok()?;
    numbers(line.trim().strip_prefix("glibc ")?)
}

fn numbers(version: &str) -> Option<(u32, u32)> {
    let (major, minor) = version.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
