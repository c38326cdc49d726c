//! Lists the pages and the skill that the program holds, and makes a start of the program touch little memory.
//!
//! **Pages** of `docs/guides` and `docs/reference` are part of the program, for `llm-do docs`. A folder that has another page
//! is another program, so the list is written here. **The skill** is `skills/llm-do` without its test, for `llm-do skill`.
//!
//! **Relocations** are packed where the C library that the program is built beside can unpack them. The program lies anywhere
//! in memory, so each address in its constant data is put right before `main`. Usually there are 24 bytes in the file for
//! each, over a megabyte in all that is read at every start. Packed (`DT_RELR`, which glibc has had since 2.36) it is a bit
//! for each. An older glibc would refuse to start what is packed, so `scripts/release` names the oldest glibc that its program
//! must start with in `LLM_DO_OLDEST_GLIBC`, and the linker that it uses cannot pack.
//!
//! **The functions of a start** lie side by side in a released program. They are a tenth of it, some 3,000 functions, and
//! would lie everywhere. The system brings 64 KB into memory for each that is not there. `bench/startup-order` writes the
//! list, `startup.order`.

use std::{env, fs, path::Path, process::Command};

/// The first version of glibc that unpacks relocations.
const UNPACKS: (u32, u32) = (2, 36);

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    list_skill().expect("the skill can be read, and the folder of the build can be written");
    list_pages().expect("the pages of docs can be read, and the folder of the build can be written");
    println!("cargo:rerun-if-env-changed=LLM_DO_OLDEST_GLIBC");
    let is = |name: &str, wanted: &str| env::var(name).is_ok_and(|found| found == wanted);
    let native = env::var("HOST").ok() == env::var("TARGET").ok();
    let glibc = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    if glibc && is("PROFILE", "release") && can_order() {
        order();
    }
    if native && glibc && version().is_some_and(|version| version >= UNPACKS) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Writes `pages.rs`: the names and the texts of all pages, sorted by name.
fn list_pages() -> std::io::Result<()> {
    let docs = Path::new(&env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../../docs");
    let mut pages = Vec::new();
    for folder in ["guides", "reference"] {
        println!("cargo:rerun-if-changed={}", docs.join(folder).display());
        for entry in fs::read_dir(docs.join(folder))? {
            let path = entry?.path().canonicalize()?;
            if let (Some(name), Some("md")) = (path.file_stem(), path.extension().and_then(|it| it.to_str()))
            {
                pages.push((format!("{folder}/{}", name.display()), path));
            }
        }
    }
    pages.push(("security".to_owned(), docs.join("security.md").canonicalize()?));
    pages.sort();
    let rows: String =
        pages.iter().map(|(name, path)| format!("({name:?}, include_str!({path:?})),\n")).collect();
    let out = Path::new(&env::var_os("OUT_DIR").unwrap_or_default()).join("pages.rs");
    fs::write(out, format!("&[\n{rows}]\n"))
}

/// Writes `skill.rs`: the paths and the texts of the skill's files, sorted by path.
fn list_skill() -> std::io::Result<()> {
    let skill = Path::new(&env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../../skills/llm-do");
    println!("cargo:rerun-if-changed={}", skill.display());
    let mut files = vec![("SKILL.md".to_owned(), skill.join("SKILL.md").canonicalize()?)];
    for entry in fs::read_dir(skill.join("references"))? {
        let path = entry?.path().canonicalize()?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        files.push((format!("references/{name}"), path));
    }
    files.sort();
    let rows: String =
        files.iter().map(|(name, path)| format!("({name:?}, include_str!({path:?})),\n")).collect();
    let out = Path::new(&env::var_os("OUT_DIR").unwrap_or_default()).join("skill.rs");
    fs::write(out, format!("&[\n{rows}]\n"))
}

/// Returns the glibc that the program must start with: the requested one, or else this machine's, from a line like
/// `glibc 2.36`.
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

/// Returns true if the linker reads scripts, as those of GNU and LLVM do.
fn can_order() -> bool {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    !["mold", "gold", "wild"].iter().any(|other| flags.contains(&format!("-fuse-ld={other}")))
}

/// Lets the linker place the functions of the list before all others. A symbol ends in a hash, which changes with the
/// compiler and with every dependency, so the list has none.
fn order() {
    println!("cargo:rerun-if-changed=startup.order");
    println!("cargo:rerun-if-env-changed=CARGO_ENCODED_RUSTFLAGS");
    let list = fs::read_to_string("startup.order").expect("the list is beside this file");
    let sections: String = list
        .lines()
        .map(|path| if path.starts_with("_ZN") { format!("{path}17h*") } else { path.to_owned() })
        .map(|symbol| format!("    *(.text.{symbol})\n"))
        .collect();
    let script = format!("SECTIONS {{\n  .text_startup : {{\n{sections}  }}\n}} INSERT BEFORE .text;\n");
    let file = Path::new(&env::var("OUT_DIR").expect("Cargo names it")).join("startup.ld");
    fs::write(&file, script).expect("the folder of the build can be written");
    println!("cargo:rustc-link-arg-bins=-T");
    println!("cargo:rustc-link-arg-bins={}", file.display());
}
