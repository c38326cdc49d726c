//! Checks that generated files are up to date. `UPDATE_EXPECT=1` writes them.
#![allow(clippy::unwrap_used)] // in a test a panic is the report

mod stubs;
mod surface;

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The folder of this package.
fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).canonicalize().unwrap()
}

fn is_up_to_date(file: &Path, text: &str) {
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(file, text).unwrap();
    }
    let old = fs::read_to_string(file).unwrap_or_default();
    let place = old.lines().zip(text.lines()).position(|(old, new)| old != new);
    let line = place.unwrap_or_else(|| old.lines().count().min(text.lines().count()));
    assert!(
        old == text,
        "{}, line {}: it says `{}` in place of `{}`: UPDATE_EXPECT=1 writes it",
        file.display(),
        line + 1,
        old.lines().nth(line).unwrap_or_default(),
        text.lines().nth(line).unwrap_or_default(),
    );
}
