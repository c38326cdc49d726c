//! One process: its limits, its end and its output.

use super::output::Printed;
use crate::confine::{Denial, Exit, Process, Running, StartError, Watching};
use std::{pin::pin, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    time::{Instant, sleep_until},
};

/// Maximum output of a command in bytes, both streams together. More is useless, and a command must not print without
/// limit.
const MOST_PRINTED: u64 = 64 << 20;

/// Time limit for the end of a killed process and the rest of its output.
pub(crate) const ENDING: Duration = Duration::from_secs(5);

/// The result of a process.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) exit: Exit,
    pub(crate) stdout: Printed,
    pub(crate) stderr: Printed,
    /// Why it was killed, if it did not end by itself.
    pub(crate) ended: Option<String>,
    /// The denials of its proxy, if it has a list of domains.
    pub(crate) denials: Vec<Denial>,
}

/// A process that is watched until it has ended, also after its call was cancelled. Empty only while it is dropped.
struct Watched(Option<(Running, Watching)>);

impl Drop for Watched {
    fn drop(&mut self) {
        let Some((mut running, watching)) = self.0.take() else { return };
        running.kill();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = tokio::time::timeout(ENDING, running.wait()).await;
                drop(watching);
            });
        }
    }
}

/// Runs a process to its end or until the timeout. Dropping the future ends the process and all its descendants.
///
/// # Errors
/// It could not be started.
pub(crate) async fn run(process: Process, timeout: Duration, watching: Watching) -> Result<Ran, StartError> {
    let mut watched = Watched(Some((process.start().await?, watching)));
    let Some((running, _)) = &mut watched.0 else {
        return Err(StartError::Supervisor("it has already ended".into()));
    };
    let (mut out, mut err) = (running.stdout(), running.stderr());
    let (mut stdout, mut stderr) = (Printed::default(), Printed::default());
    let (mut out_buffer, mut err_buffer) = (vec![0; 32 * 1024], vec![0; 32 * 1024]);
    let mut exit = None;
    let mut ended = None;
    let mut deadline = pin!(sleep_until(Instant::now() + timeout));
    while exit.is_none() || out.is_some() || err.is_some() {
        tokio::select! {
            read = read(&mut out, &mut out_buffer), if out.is_some() => match read {
                0 => out = None,
                count => stdout.push(&out_buffer[..count]),
            },
            read = read(&mut err, &mut err_buffer), if err.is_some() => match read {
                0 => err = None,
                count => stderr.push(&err_buffer[..count]),
            },
            found = running.wait(), if exit.is_none() => {
                exit = Some(found);
                // Only foreign processes can still hold the pipes open.
                deadline.as_mut().reset(Instant::now() + ENDING);
            }
            () = &mut deadline => {
                if exit.is_some() || ended.is_some() {
                    break;
                }
                ended = Some(format!("it ran for longer than {} and was ended", seconds(timeout)));
                running.kill();
                deadline.as_mut().reset(Instant::now() + ENDING);
            }
        }
        if ended.is_none() && stdout.total + stderr.total > MOST_PRINTED {
            ended = Some(format!("it printed more than {} MiB and was ended", MOST_PRINTED >> 20));
            running.kill();
            deadline.as_mut().reset(Instant::now() + ENDING);
        }
    }
    let exit = exit.unwrap_or(Exit { code: None, signal: None, reason: None });
    let denials = running.denials().map(|denials| denials.since(0)).unwrap_or_default();
    Ok(Ran { exit, stdout, stderr, ended, denials })
}

/// The next bytes; none at the end, and where the system has no more to say.
async fn read(pipe: &mut Option<impl AsyncRead + Unpin>, buffer: &mut [u8]) -> usize {
    match pipe {
        Some(pipe) => pipe.read(buffer).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}
