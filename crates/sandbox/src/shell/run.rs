//! The processes of one command: their limits, their end and their output.

use super::output::Printed;
use crate::confine::{Channel, Denial, Exit, Process, Running, StartError, Watching};
use std::{os::unix::net::UnixStream as StdUnixStream, pin::pin, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    task::JoinHandle,
    time::{Instant, sleep_until, timeout_at},
};

/// The largest output of a command in bytes, both streams together. More is useless, and a command must not print
/// without limit.
const MOST_PRINTED: u64 = 64 << 20;

/// Time limit for the end of a killed process and the rest of its output.
pub(crate) const ENDING: Duration = Duration::from_secs(5);

/// The signal of a process that writes into a pipe which nothing reads.
const BROKEN_PIPE: i32 = 13;

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) exit: Exit,
    pub(crate) stdout: Printed,
    pub(crate) stderr: Printed,
    /// The reason why it was killed, if it did not end by itself.
    pub(crate) ended: Option<String>,
    /// The denials of its proxy, if it has a list of domains.
    pub(crate) denials: Vec<Denial>,
    /// The program that this exit belongs to, if the command has several.
    pub(crate) program: Option<String>,
}

/// Processes that are watched until they have ended, also after their call was cancelled. The value is `None` only
/// while it is dropped.
struct Watched(Option<(Vec<Running>, Watching)>);

impl Drop for Watched {
    fn drop(&mut self) {
        let Some((mut running, watching)) = self.0.take() else { return };
        running.iter().for_each(Running::kill);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                for running in &mut running {
                    let _ = tokio::time::timeout(ENDING, running.wait()).await;
                }
                drop(watching);
            });
        }
    }
}

/// Tasks that end with this value.
struct Tasks<T>(Vec<JoinHandle<T>>);

impl<T> Drop for Tasks<T> {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// Runs processes to their end or until the timeout. Each gets the output of the one before as its input, the first one
/// `input`. Dropping the future ends the processes and all their descendants.
///
/// # Errors
/// One of them could not be started.
pub(crate) async fn run(
    stages: Vec<Process>,
    input: Option<Vec<u8>>,
    timeout: Duration,
    watching: Watching,
) -> Result<Ran, StartError> {
    let names: Vec<String> = stages.iter().map(|process| process.program.display().to_string()).collect();
    let mut watched = Watched(Some((Vec::with_capacity(stages.len()), watching)));
    let Some((running, _)) = &mut watched.0 else {
        return Err(StartError::Supervisor("it has already ended".into()));
    };
    let mut pumps = Tasks(Vec::new());
    let mut earlier = Tasks(Vec::new());
    let mut input = input;
    for mut process in stages {
        let before = running.last_mut().map(Running::stdout);
        if before.is_some() || input.is_some() {
            let (mut ours, theirs) = pipe()?;
            process.channel = Some(Channel::Input(theirs.into()));
            let text = input.take();
            pumps.0.push(tokio::spawn(async move {
                // A program that has ended, or reads no further, has had enough.
                if let Some(text) = text {
                    let _ = ours.write_all(&text).await;
                } else if let Some(Some(mut before)) = before {
                    let _ = tokio::io::copy(&mut before, &mut ours).await;
                }
                let _ = ours.shutdown().await;
            }));
        }
        if let Some(last) = running.last_mut() {
            let err = last.stderr();
            earlier.0.push(tokio::spawn(all(err)));
        }
        running.push(process.start().await?);
    }
    let Some((last, before)) = running.split_last_mut() else {
        return Err(StartError::Supervisor("there is no program".into()));
    };
    let (mut out, mut err) = (last.stdout(), last.stderr());
    let (mut stdout, mut stderr) = (Printed::default(), Printed::default());
    let (mut out_buffer, mut err_buffer) = (vec![0; 32 * 1024], vec![0; 32 * 1024]);
    let mut exit = None;
    let mut ended = None;
    let limit = Instant::now() + timeout;
    let too_long = || format!("it ran for longer than {} and was ended", seconds(timeout));
    let mut deadline = pin!(sleep_until(limit));
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
            found = last.wait(), if exit.is_none() => {
                exit = Some(found);
                // Only foreign processes can still hold the pipes open.
                deadline.as_mut().reset(Instant::now() + ENDING);
            }
            () = &mut deadline => {
                if exit.is_some() || ended.is_some() {
                    break;
                }
                ended = Some(too_long());
                last.kill();
                before.iter().for_each(Running::kill);
                deadline.as_mut().reset(Instant::now() + ENDING);
            }
        }
        if ended.is_none() && stdout.total + stderr.total > MOST_PRINTED {
            ended = Some(format!("it printed more than {} MiB and was ended", MOST_PRINTED >> 20));
            last.kill();
            before.iter().for_each(Running::kill);
            deadline.as_mut().reset(Instant::now() + ENDING);
        }
    }
    let exit = exit.unwrap_or(Exit { code: None, signal: None, reason: None });
    let mut denials = last.denials().map(|denials| denials.since(0)).unwrap_or_default();
    // As `pipefail` of a shell: the last program that failed counts.
    let (mut failed, mut at) = (exit, before.len());
    for (number, running) in before.iter_mut().enumerate().rev() {
        let found = match timeout_at(limit.max(Instant::now() + ENDING), running.wait()).await {
            Ok(found) => found,
            Err(_) => {
                ended.get_or_insert_with(too_long);
                running.kill();
                continue;
            }
        };
        denials.extend(running.denials().map(|denials| denials.since(0)).unwrap_or_default());
        if failed.code == Some(0) && found.code != Some(0) && found.signal != Some(BROKEN_PIPE) {
            (failed, at) = (found, number);
        }
    }
    let mut printed = Printed::default();
    for task in &mut earlier.0 {
        if let Ok(Ok(read)) = tokio::time::timeout(ENDING, task).await {
            printed.append(read);
        }
    }
    printed.append(stderr);
    let program = (names.len() > 1 && failed.code != Some(0)).then(|| names.into_iter().nth(at)).flatten();
    let program = program.map(|name| name.rsplit('/').next().unwrap_or_default().to_owned());
    Ok(Ran { exit: failed, stdout, stderr: printed, ended, denials, program })
}

/// Creates a connection to the standard input of a process.
fn pipe() -> Result<(UnixStream, StdUnixStream), StartError> {
    let made = || {
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        Ok((UnixStream::from_std(ours)?, theirs))
    };
    made()
        .map_err(|error: std::io::Error| StartError::Supervisor(format!("its input can't be made: {error}")))
}

/// Reads all output of a pipe.
async fn all(mut pipe: Option<impl AsyncRead + Unpin>) -> Printed {
    let (mut printed, mut buffer) = (Printed::default(), vec![0; 8 * 1024]);
    while pipe.is_some() {
        match read(&mut pipe, &mut buffer).await {
            0 => pipe = None,
            count => printed.push(&buffer[..count]),
        }
    }
    printed
}

/// Reads the next bytes. Returns 0 at the end, and after an error. Without a pipe, never returns.
async fn read(pipe: &mut Option<impl AsyncRead + Unpin>, buffer: &mut [u8]) -> usize {
    match pipe {
        Some(pipe) => pipe.read(buffer).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}
