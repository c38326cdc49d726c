//! Embeds the built web app, `web/dist`, if it is there. Without it the server says how to build the app.

use flate2::{Compression, GzBuilder};
use sha2::{Digest, Sha256};
use std::{
    env, fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    let variable = |name: &str| env::var_os(name).map(PathBuf::from).ok_or(io::ErrorKind::NotFound);
    let (own, out) = (variable("CARGO_MANIFEST_DIR")?, variable("OUT_DIR")?);
    let web = own.join("../../web");
    let dist = web.join("dist");
    let mut entries = String::new();
    if web.is_dir() {
        // Cargo can't watch for a folder to appear: it would run this each time. An empty one can be watched.
        fs::create_dir_all(&dist)?;
        println!("cargo:rerun-if-changed={}", dist.display());
        let mut files = Vec::new();
        for folder in [dist.clone(), dist.join("assets")] {
            for entry in fs::read_dir(&folder).into_iter().flatten() {
                let path = entry?.path();
                if path.is_file() {
                    files.push(path);
                }
            }
        }
        files.sort();
        for (number, path) in files.iter().enumerate() {
            entries.push_str(&embedded(&dist, path, &out, number)?);
        }
    }
    fs::write(out.join("app_files.rs"), format!("&[\n{entries}]\n"))
}

/// The entry of one file, which is compressed into `out`.
fn embedded(dist: &Path, path: &Path, out: &Path, number: usize) -> io::Result<String> {
    let bytes = fs::read(path)?;
    let name = path.strip_prefix(dist).map_err(io::Error::other)?.to_string_lossy().replace('\\', "/");
    let compressed = out.join(format!("app_{number}.gz"));
    // Without name and time, so that the same files give the same binary.
    let mut encoder = GzBuilder::new().mtime(0).write(fs::File::create(&compressed)?, Compression::best());
    encoder.write_all(&bytes)?;
    encoder.finish()?;
    let hash: String = Sha256::digest(&bytes)[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!(
        "    File {{ name: {name:?}, etag: \"\\\"{hash}\\\"\", bytes: {}, gzip: include_bytes!({:?}) }},\n",
        bytes.len(),
        compressed.display().to_string()
    ))
}
