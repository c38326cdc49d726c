//! The confined process of a model, seen from llm-do, which starts it, sends it requests, and ends it.

use crate::{
    host::ROLE,
    memory,
    model::LoadError,
    wire::{self, Answer, Ask, FromModel, Machine, ToModel},
};
use llm_do_core::model::{Delta, ModelError, ModelErrorKind};
use llm_do_sandbox::confine::{Channel, Confinement, Limits, Process, ProcessView, Running, own_binary};
use std::{
    collections::HashMap,
    fs, io,
    os::{fd::OwnedFd, unix::net::UnixStream as StdUnixStream},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};

/// The time without any message after which a busy process counts as hanging. One step of a large model on a slow
/// machine takes minutes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);
/// Most time for a process to end after it was stopped.
const ENDING: Duration = Duration::from_secs(5);
/// Memory of the process beside the weights and the conversations: the program, its buffers, and address space that is
/// reserved and never used.
const OVERHEAD: u64 = 3 << 30;
/// Memory that is assumed to be free where the system does not report it.
const MODEST_MEMORY: u64 = 4 << 30;
/// Most bytes of text that one answer may stream. No context window has room for more.
const LONGEST_ANSWER: usize = 64 << 20;

/// A process that has loaded its model. Dropping it ends the process.
#[derive(Debug)]
pub(crate) struct ModelProcess {
    orders: mpsc::UnboundedSender<Order>,
    next: AtomicU64,
}

/// An order to the task that owns the process.
#[derive(Debug)]
enum Order {
    Ask { id: u64, ask: Box<Ask>, events: mpsc::UnboundedSender<Event> },
    Cancel { id: u64 },
}

/// An event of a request.
#[derive(Debug)]
pub(crate) enum Event {
    /// A piece of the answer.
    Delta(Delta),
    /// The end.
    Done(Result<Answer, ModelError>),
}

impl ModelProcess {
    /// Starts the process and waits until it has loaded the file. Adds to `evaluated` the tokens that it evaluates.
    pub(crate) async fn start(
        file: &Path,
        confinement: Confinement,
        patience: Duration,
        evaluated: Arc<AtomicU64>,
    ) -> Result<Self, LoadError> {
        let failed = |reason: String| LoadError::NotStarted { path: file.to_owned(), reason };
        let binary = own_binary().map_err(|error| {
            failed(format!("the program itself was moved or replaced ({error}): start it again"))
        })?;
        let (ours, theirs) = StdUnixStream::pair().map_err(|error| failed(error.to_string()))?;
        ours.set_nonblocking(true).map_err(|error| failed(error.to_string()))?;
        let (process, machine) =
            prepare(binary, file, confinement).map_err(|error| failed(error.to_string()))?;
        let process = Process { channel: Some(Channel::Third(OwnedFd::from(theirs))), ..process };
        let mut running = process.start().await.map_err(|error| failed(error.to_string()))?;
        // It has nothing to print there.
        drop(running.stdout());
        let stream = UnixStream::from_std(ours).map_err(|error| failed(error.to_string()))?;
        let (mut from, to) = stream.into_split();
        let mut live = Live { file: file.to_owned(), running, to, patience, evaluated };
        live.send(&ToModel::Load(machine)).await.map_err(failed)?;
        let unusable = |reason: String| LoadError::Unusable { path: file.to_owned(), reason };
        loop {
            match timeout(patience, wire::read(&mut from)).await {
                Ok(Ok(Some(FromModel::Busy))) => {}
                Ok(Ok(Some(FromModel::Loaded))) => break,
                Ok(Ok(Some(FromModel::Unusable { reason }))) => return Err(unusable(plain(&reason))),
                Ok(Ok(None)) => return Err(unusable(live.epitaph().await)),
                Ok(Ok(Some(_))) => return Err(unusable("its process sent an invalid message".into())),
                Ok(Err(error)) => {
                    return Err(unusable(format!("its process sent an invalid message: {error}")));
                }
                Err(_) => return Err(unusable(live.hang())),
            }
        }
        let (orders, inbox) = mpsc::unbounded_channel();
        let (frames, messages) = mpsc::channel(64);
        tokio::spawn(read_frames(from, frames));
        tokio::spawn(live.work(messages, inbox));
        Ok(Self { orders, next: AtomicU64::new(1) })
    }

    /// Returns true if the process has ended.
    pub(crate) fn is_gone(&self) -> bool {
        self.orders.is_closed()
    }

    /// Sends a request. The answer comes in events.
    pub(crate) fn ask(&self, ask: Ask) -> Asked {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, events) = mpsc::unbounded_channel();
        // If the process has ended, the events end as well.
        let _ = self.orders.send(Order::Ask { id, ask: Box::new(ask), events: sender });
        Asked { orders: self.orders.clone(), id, events }
    }
}

/// A request. Dropping it cancels it.
pub(crate) struct Asked {
    orders: mpsc::UnboundedSender<Order>,
    id: u64,
    events: mpsc::UnboundedReceiver<Event>,
}

impl Asked {
    /// Returns the next event. None follows [`Event::Done`].
    pub(crate) async fn next(&mut self) -> Event {
        let gone = || ModelError::new(ModelErrorKind::BadRequest, "local model: its process has ended");
        self.events.recv().await.unwrap_or_else(|| Event::Done(Err(gone())))
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let _ = self.orders.send(Order::Cancel { id: self.id });
    }
}

/// Makes the process to start, and determines the resources that it may use. It reads the file and its own program,
/// writes nothing, and has no network and no environment.
fn prepare(binary: PathBuf, file: &Path, confinement: Confinement) -> io::Result<(Process, Machine)> {
    let file = file.canonicalize()?;
    let size = fs::metadata(&file)?.len();
    let machine = Machine { cores: cores(), memory: memory::free().unwrap_or(MODEST_MEMORY) / 4 };
    let view = ProcessView::empty().with_readable([binary.clone(), file.clone()]);
    let limits = Limits {
        // Weights may be repacked into a second copy, and conversations are copied when they need a larger context.
        memory: size.saturating_mul(2).saturating_add(machine.memory * 2).saturating_add(OVERHEAD),
        processes: u32::try_from(2 * machine.cores + 16).unwrap_or(u32::MAX),
        open_files: 64,
        temporary: 4096,
        file_size: 0,
        processor_seconds: None,
    };
    let process = Process {
        args: vec![ROLE.into(), file.into()],
        // Otherwise the library starts a debugger before it aborts.
        env: vec![("GGML_NO_BACKTRACE".into(), "1".into())],
        limits,
        ..Process::new(binary, view, confinement)
    };
    Ok((process, machine))
}

/// Returns the number of cores for threads: those that this process is bound to and that its control group allows.
fn cores() -> usize {
    num_cpus::get_physical().min(num_cpus::get()).max(1)
}

/// Returns a text of the process, without control characters and cut at a limit.
fn plain(text: &str) -> String {
    text.chars().filter(|it| !it.is_control()).take(500).collect()
}

/// Returns an error of the process as one that llm-do does not retry.
fn final_error(error: ModelError) -> ModelError {
    let kind = if error.is_transient() { ModelErrorKind::BadRequest } else { error.kind };
    ModelError::new(kind, plain(&error.message))
}

async fn read_frames(from: OwnedReadHalf, frames: mpsc::Sender<io::Result<FromModel>>) {
    let mut from = BufReader::new(from);
    while let Some(message) = wire::read(&mut from).await.transpose() {
        let broken = message.is_err();
        if frames.send(message).await.is_err() || broken {
            return;
        }
    }
}

/// A running process and the channels to it.
struct Live {
    file: PathBuf,
    running: Running,
    to: OwnedWriteHalf,
    patience: Duration,
    evaluated: Arc<AtomicU64>,
}

/// A request that is not answered yet.
struct Pending {
    events: mpsc::UnboundedSender<Event>,
    /// Bytes of text so far.
    length: usize,
}

impl Live {
    /// Carries messages between requests and the process, until the process ends or llm-do drops the model.
    async fn work(
        mut self,
        mut messages: mpsc::Receiver<io::Result<FromModel>>,
        mut orders: mpsc::UnboundedReceiver<Order>,
    ) {
        let mut pending: HashMap<u64, Pending> = HashMap::new();
        let (mut heard, mut seen) = (Instant::now(), 0);
        let reason = loop {
            tokio::select! {
                // A message that has arrived counts before the time that has passed.
                biased;
                message = messages.recv() => match message {
                    Some(Ok(message)) => {
                        heard = Instant::now();
                        if let Err(reason) = self.take(message, &mut pending, &mut seen) {
                            break reason;
                        }
                    }
                    Some(Err(error)) => break format!("its process sent an invalid message: {error}"),
                    None => break self.epitaph().await,
                },
                order = orders.recv() => {
                    let message = match order {
                        None => return,
                        Some(Order::Ask { id, ask, events }) => {
                            if pending.is_empty() {
                                heard = Instant::now();
                            }
                            pending.insert(id, Pending { events, length: 0 });
                            ToModel::Ask { id, ask: *ask }
                        }
                        Some(Order::Cancel { id }) => match pending.remove(&id) {
                            Some(_) => ToModel::Cancel { id },
                            None => continue,
                        },
                    };
                    if let Err(reason) = self.send(&message).await {
                        break reason;
                    }
                }
                () = sleep_until(heard + self.patience), if !pending.is_empty() => break self.hang(),
            }
        };
        // From here on a request starts another process.
        orders.close();
        while let Some(order) = orders.recv().await {
            if let Order::Ask { id, events, .. } = order {
                pending.insert(id, Pending { events, length: 0 });
            }
        }
        self.running.kill();
        let message = format!("local model {}: {reason}", self.file.display());
        for (_, request) in pending {
            let error = ModelError::new(ModelErrorKind::BadRequest, message.as_str());
            let _ = request.events.send(Event::Done(Err(error)));
        }
    }

    /// Passes a message on to its request. A cancelled request no longer has a receiver.
    fn take(
        &self,
        message: FromModel,
        pending: &mut HashMap<u64, Pending>,
        seen: &mut u64,
    ) -> Result<(), String> {
        let (id, delta) = match message {
            FromModel::Busy => return Ok(()),
            FromModel::Text { id, text } => (id, Delta::Text { text }),
            FromModel::Call { id, name } => (id, Delta::Call { name }),
            FromModel::Done { id, outcome, evaluated } => {
                self.evaluated.fetch_add(evaluated.saturating_sub(*seen), Ordering::Relaxed);
                *seen = evaluated;
                if let Some(request) = pending.remove(&id) {
                    let _ = request.events.send(Event::Done(outcome.map_err(final_error)));
                }
                return Ok(());
            }
            FromModel::Loaded | FromModel::Unusable { .. } => {
                return Err("its process sent an invalid message".into());
            }
        };
        if let Some(request) = pending.get_mut(&id) {
            if let Delta::Text { text } | Delta::Call { name: text } = &delta {
                request.length = request.length.saturating_add(text.len());
            }
            if request.length > LONGEST_ANSWER {
                return Err("its process sent an endless answer".into());
            }
            let _ = request.events.send(Event::Delta(delta));
        }
        Ok(())
    }

    async fn send(&mut self, message: &ToModel) -> Result<(), String> {
        match timeout(self.patience, self.to.write_all(&wire::frame(message))).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(self.epitaph().await),
            Err(_) => Err(self.hang()),
        }
    }

    /// Describes how the process ended, which has closed its socket, with the last line that it printed.
    async fn epitaph(&mut self) -> String {
        let said = last_line(self.running.stderr()).await;
        let exit = match timeout(ENDING, self.running.wait()).await {
            Ok(exit) => exit.to_string(),
            Err(_) => {
                self.running.kill();
                "it closed its connection".to_owned()
            }
        };
        let said = if said.is_empty() { said } else { format!(": {said}") };
        format!(
            "the process that runs it has ended ({exit}){said}. The file may be damaged, or made to do harm"
        )
    }

    /// Ends a process that hangs.
    fn hang(&self) -> String {
        self.running.kill();
        let seconds = self.patience.as_secs();
        format!("the process that runs it made no progress for {seconds} s, and was ended")
    }
}

/// Returns the last line that the library prints before it aborts, without the folders of its source.
async fn last_line(pipe: Option<impl AsyncRead + Unpin>) -> String {
    let mut text = Vec::new();
    if let Some(pipe) = pipe {
        let _ = timeout(ENDING, pipe.take(64 * 1024).read_to_end(&mut text)).await;
    }
    let text = String::from_utf8_lossy(&text);
    let line = text.trim().lines().last().unwrap_or_default();
    plain(line.rsplit('/').next().unwrap_or_default())
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use llm_do_sandbox::confine::{Tier, install_binary, probe};
    use std::{net::TcpListener, sync::Once};

    /// Returns the path of the binary. Cargo puts it beside the folder of the test binary.
    fn binary() -> PathBuf {
        static INSTALLED: Once = Once::new();
        let tests = std::env::current_exe().unwrap();
        let binary = tests.parent().unwrap().with_file_name("examples").join("model_process");
        assert!(binary.is_file(), "cargo builds {}", binary.display());
        INSTALLED.call_once(|| install_binary(&binary));
        binary
    }

    /// Runs a Python script in the place of the model. Returns the text that it printed.
    async fn instead_of_the_model(script: &str, file: &Path, confinement: Confinement) -> String {
        let (mut process, _) = prepare(binary(), file, confinement).unwrap();
        process.program = "/usr/bin/python3".into();
        process.args = vec!["-c".into(), script.into()];
        let mut running = process.start().await.unwrap();
        let (mut out, mut err) = (String::new(), String::new());
        let (mut stdout, mut stderr) = (running.stdout().unwrap(), running.stderr().unwrap());
        let (_, _) = tokio::join!(stdout.read_to_string(&mut out), stderr.read_to_string(&mut err));
        let exit = running.wait().await;
        assert_eq!(exit.code, Some(0), "{exit}: {err}");
        out
    }

    const SCRIPT: &str = "
import os, socket, sys
def attempt(name, deed):
    try:
        print(name, deed())
    except BaseException as error:
        print(name, type(error).__name__)
def write():
    with open(os.path.join(os.environ['TMPDIR'], 'x'), 'w') as file:
        file.write('x' * 10000)
    return 'done'
attempt('weights', lambda: open('WEIGHTS').read())
attempt('beside', lambda: open('BESIDE').read())
attempt('writes', write)
attempt('over', lambda: open('WEIGHTS', 'w'))
attempt('connects', lambda: socket.create_connection(('127.0.0.1', PORT), 5))
attempt('memory', lambda: len(bytearray(1 << 40)))
print('environment', *sorted(name for name in os.environ if name not in ('LC_CTYPE', 'PWD', 'SHLVL', '_')))
";

    #[tokio::test]
    async fn a_process_sees_its_file_and_nothing_else() {
        if !Path::new("/usr/bin/python3").exists() {
            println!("skipped: there is no /usr/bin/python3");
            return;
        }
        // Not below /tmp, which is another folder in a confined process.
        let tests = std::env::current_exe().unwrap();
        let folder = tempfile::tempdir_in(tests.parent().unwrap()).unwrap();
        let (weights, beside) = (folder.path().join("weights.gguf"), folder.path().join("beside"));
        fs::write(&weights, "its own").unwrap();
        fs::write(&beside, "secret").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        binary();
        for tier in [Tier::Namespaces, Tier::Landlock].into_iter().filter(|tier| probe().has(*tier)) {
            let script = SCRIPT
                .replace("WEIGHTS", &weights.to_string_lossy())
                .replace("BESIDE", &beside.to_string_lossy())
                .replace("PORT", &listener.local_addr().unwrap().port().to_string());
            let said = instead_of_the_model(&script, &weights, Confinement::Tier(tier)).await;
            println!("{tier:?}: {said}");
            assert!(said.contains("weights its own"), "{tier:?}: {said}");
            assert!(!said.contains("secret"), "{tier:?}: {said}");
            assert!(!said.contains("done") && said.contains("writes OSError"), "{tier:?}: {said}");
            assert!(
                said.contains("over OSError") || said.contains("over PermissionError"),
                "{tier:?}: {said}"
            );
            assert!(said.contains("memory MemoryError"), "{tier:?}: {said}");
            assert!(said.contains("connects ") && !said.contains("connects <"), "{tier:?}: {said}");
            assert!(said.contains("environment GGML_NO_BACKTRACE HOME TMPDIR\n"), "{tier:?}: {said}");
            assert!(listener.accept().is_err(), "{tier:?}: it reached a socket");
        }
    }
}
