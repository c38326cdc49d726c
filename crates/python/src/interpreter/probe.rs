//! The probe: an interpreter reports its version and compiles the host, in a confined process.

use super::{PROBE_LIMIT, write_once};
use crate::host::PYTHON;
use llm_do_core::schema::sha256;
use llm_do_sandbox::confine::{Confinement, Exit, Process, ProcessView};
use serde::Deserialize;
use std::{
    io,
    path::{Path, PathBuf},
};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The oldest version that runs the host.
const OLDEST: (u32, u32) = (3, 9);

/// Reports the version of an installation and compiles the host for it.
const PROBE: &str = r#"
import base64, json, os, py_compile, sys, tempfile
out = os.path.join(tempfile.mkdtemp(), "host.pyc")
mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
py_compile.compile(sys.argv[1], cfile=out, dfile="<llm-do host>", doraise=True, invalidation_mode=mode)
with open(out, "rb") as file:
    code = base64.b64encode(file.read()).decode()
print("\n" + json.dumps({
    "version": "%d.%d.%d" % sys.version_info[:3],
    "implementation": sys.implementation.name,
    "code": code,
}))
"#;

/// The answer of an interpreter to the probe.
#[derive(Deserialize)]
pub(crate) struct Probed {
    /// `3.11.7`.
    pub(crate) version: String,
    implementation: String,
    /// The compiled host, in base64.
    pub(crate) code: String,
}

/// Runs the probe with an installation alone, without the code that an environment or a user adds to the start of
/// Python (`-S`, `-I`).
pub(crate) async fn ask(
    python: &Path,
    places: &[PathBuf],
    cache: &Path,
    confinement: Confinement,
) -> Result<Probed, String> {
    let source = cache.join(format!("host-{}.py", &sha256(PYTHON.as_bytes())[..16]));
    write_once(&source, PYTHON.as_bytes())
        .map_err(|error| format!("cannot be tried: {}: {error}", source.display()))?;
    let readable = places.iter().cloned().chain([source.clone()]);
    let view = ProcessView::empty().with_readable(readable);
    let args = ["-I", "-S", "-X", "utf8", "-c", PROBE].map(Into::into).into_iter().chain([source.into()]);
    let process = Process { args: args.collect(), ..Process::new(python, view, confinement) };
    let mut running = process.start().await.map_err(|error| format!("cannot be started: {error}"))?;
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let (stdout, stderr) = (running.stdout(), running.stderr());
    let finished = async {
        let _ = tokio::join!(read(stdout, &mut out), read(stderr, &mut err));
        running.wait().await
    };
    let exit: Exit = tokio::time::timeout(PROBE_LIMIT, finished)
        .await
        .map_err(|_| format!("did not answer in {} s", PROBE_LIMIT.as_secs()))?;
    let text = String::from_utf8_lossy(&out);
    text.trim().lines().last().and_then(|line| serde_json::from_str(line).ok()).ok_or_else(|| {
        let said = String::from_utf8_lossy(&err);
        format!(
            "does not answer like Python ({exit}): {}",
            said.trim().lines().last().unwrap_or("it printed nothing")
        )
    })
}

/// Reads the output of the probe, up to a limit that no valid answer reaches.
async fn read(pipe: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>) -> io::Result<()> {
    match pipe {
        Some(pipe) => pipe.take(4 << 20).read_to_end(into).await.map(drop),
        None => Ok(()),
    }
}

/// Checks that the interpreter can run the host.
pub(crate) fn check_version(probed: &Probed) -> Result<(), String> {
    let mut numbers = probed.version.split('.').map_while(|number| number.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if probed.implementation != "cpython" {
        return Err(format!("is {} and not CPython", probed.implementation));
    }
    if version < OLDEST {
        let (major, minor) = OLDEST;
        return Err(format!("is Python {}; tools need {major}.{minor} or newer", probed.version));
    }
    Ok(())
}
