//! The keyring of the user's session, through the system's own tool: `secret-tool` of libsecret, which stores secrets
//! in GNOME Keyring, KWallet and others. llm-do links no library of a desktop.

use crate::environment::Environment;
use std::{
    env, fs,
    io::{self, Read, Write},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// The name of the tool.
const TOOL: &str = "secret-tool";

/// The variable with the bus through which the tool reaches the keyring. Without it, the tool would start a bus of its
/// own.
const BUS: &str = "DBUS_SESSION_BUS_ADDRESS";

/// Most time for the keyring to answer. The user may have to unlock it.
const PATIENCE: Duration = Duration::from_secs(120);

/// Time between two checks whether the tool has ended.
const PAUSE: Duration = Duration::from_millis(5);

/// The keyring of the user's session.
#[derive(Clone, Debug)]
pub struct Keyring {
    tool: PathBuf,
}

impl Keyring {
    /// Finds the keyring, if there is one: a session bus, and the tool in `PATH`.
    pub fn of(environment: &Environment) -> Option<Arc<Self>> {
        environment(BUS).filter(|bus| !bus.is_empty())?;
        let path = environment("PATH")?;
        let is_program = |file: &PathBuf| {
            fs::metadata(file).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        };
        let tool = env::split_paths(&path).map(|folder| folder.join(TOOL)).find(is_program)?;
        Some(Arc::new(Self { tool }))
    }

    /// Returns the secret that is kept for that server. Blocks.
    ///
    /// # Errors
    /// The keyring does not answer, or refuses.
    pub(crate) fn load(&self, server: &str) -> io::Result<Option<String>> {
        let (found, text, said) = self.run(&["lookup"], server, None)?;
        match found {
            true => Ok(Some(text).filter(|text| !text.is_empty())),
            // Without a message, there is no such secret.
            false if said.is_empty() => Ok(None),
            false => Err(io::Error::other(said)),
        }
    }

    /// Keeps a secret for that server, and replaces an earlier one. Blocks.
    ///
    /// # Errors
    /// The keyring does not answer, or refuses.
    pub(crate) fn store(&self, server: &str, secret: &str) -> io::Result<()> {
        let label = format!("--label=llm-do: {server}");
        match self.run(&["store", &label], server, Some(secret))? {
            (true, ..) => Ok(()),
            (false, _, said) => Err(io::Error::other(said)),
        }
    }

    /// Forgets the secret for that server. Blocks.
    ///
    /// # Errors
    /// The keyring does not answer, or refuses.
    pub(crate) fn forget(&self, server: &str) -> io::Result<()> {
        match self.run(&["clear"], server, None)? {
            (false, _, said) if !said.is_empty() => Err(io::Error::other(said)),
            _ => Ok(()),
        }
    }

    /// Runs the tool. Returns true if it succeeded, and the texts that it printed. The secret goes through a pipe:
    /// other users can read arguments.
    fn run(&self, what: &[&str], server: &str, secret: Option<&str>) -> io::Result<(bool, String, String)> {
        let mut command = Command::new(&self.tool);
        command.args(what).args(["service", "llm-do", "server", server]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let read = |pipe: Option<Box<dyn Read + Send>>| {
            thread::spawn(move || {
                let mut text = String::new();
                pipe.map_or(Ok(0), |mut pipe| pipe.read_to_string(&mut text)).map(|_| text)
            })
        };
        let out = read(child.stdout.take().map(|pipe| Box::new(pipe) as _));
        let err = read(child.stderr.take().map(|pipe| Box::new(pipe) as _));
        if let (Some(mut stdin), Some(secret)) = (child.stdin.take(), secret) {
            // A tool that ends without reading has said why.
            let _ = stdin.write_all(secret.as_bytes());
        }
        let succeeded = ended(&mut child)?;
        let text = |thread: thread::JoinHandle<io::Result<String>>| {
            thread.join().map_err(|_| io::Error::other("its output can't be read"))?
        };
        let (out, err) = (text(out)?, text(err)?);
        Ok((succeeded, out, err.trim().to_owned()))
    }
}

/// Waits for the tool, but not longer than a user may take to unlock the keyring.
fn ended(child: &mut Child) -> io::Result<bool> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            let message = format!("the keyring did not answer within {} s", PATIENCE.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        thread::sleep(PAUSE);
    }
}
