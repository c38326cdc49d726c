//! The process of a model: the same program, started again, with the file in its arguments and a socket as its
//! descriptor 3. The inference library runs only there.

use crate::{
    llama,
    session::{Job, Session},
    wire::{self, FromModel, Machine, ToModel},
};
use llama_cpp_2::model::{LlamaModel, params::LlamaModelParams};
use std::{
    cell::Cell,
    collections::HashMap,
    env,
    io::{self, Write},
    mem::ManuallyDrop,
    os::{
        fd::{FromRawFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
    process::exit,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// The first argument of the process. It also identifies the process in a list of processes.
pub(crate) const ROLE: &str = "llm-do-model";

/// The exit code if another program started the process with these arguments.
const USAGE: i32 = 64;
/// The size of the model thread's stack. The library recurses while it splits text and builds graphs; memory is taken
/// only as it is used.
const STACK: usize = 16 << 20;
/// Time between two messages that report progress.
const SIGN: Duration = Duration::from_secs(1);

/// Runs the process of a model, if this process was started for that, and then never returns. Every program that runs
/// local models must call this in `main`, after `llm_do_sandbox::confine::install()` and before anything else.
pub fn install() {
    let mut arguments = env::args_os().skip(1);
    if arguments.next().is_none_or(|first| first != ROLE) {
        return;
    }
    let path = arguments.next().unwrap_or_default();
    // SAFETY: the launcher gives a process with this role its socket as descriptor 3, and this is its only owner. For
    // others the number may be no descriptor: then the first use fails, and nothing is closed.
    let socket = ManuallyDrop::new(UnixStream::from(unsafe { OwnedFd::from_raw_fd(3) }));
    let code = serve(path.into(), &socket);
    if code == USAGE {
        let _ = writeln!(io::stderr(), "{ROLE}: only llm-do itself starts the process of a model");
    }
    exit(code)
}

/// The connection back to llm-do. Only the thread that runs the model uses it.
pub(crate) struct Replies {
    socket: UnixStream,
    /// The time at which the last message was sent.
    last: Cell<Instant>,
}

impl Replies {
    /// Sends a message. Ends the process if llm-do is gone.
    pub(crate) fn send(&self, message: &FromModel) {
        if (&self.socket).write_all(&wire::frame(message)).is_err() {
            exit(0);
        }
        self.last.set(Instant::now());
    }

    /// Sends a sign of progress, if the last message was some time ago.
    pub(crate) fn keep_alive(&self) {
        if self.last.get().elapsed() > SIGN {
            self.send(&FromModel::Busy);
        }
    }
}

/// Reads messages until llm-do closes the connection. The model has a thread of its own.
fn serve(path: PathBuf, socket: &UnixStream) -> i32 {
    let (Ok(mut from), Ok(socket)) = (socket.try_clone(), socket.try_clone()) else { return USAGE };
    let Ok(Some(ToModel::Load(machine))) = wire::read_blocking(&mut from) else { return USAGE };
    let (jobs, inbox) = mpsc::channel();
    let work = move || run(&path, machine, &inbox, Replies { socket, last: Cell::new(Instant::now()) });
    if thread::Builder::new().name("model".into()).stack_size(STACK).spawn(work).is_err() {
        return USAGE;
    }
    let mut asked: HashMap<u64, Arc<AtomicBool>> = HashMap::new();
    while let Ok(Some(message)) = wire::read_blocking(&mut from) {
        match message {
            ToModel::Ask { id, ask } => {
                let cancelled = Arc::new(AtomicBool::new(false));
                // Those that are answered have let theirs go.
                asked.retain(|_, flag| Arc::strong_count(flag) > 1);
                asked.insert(id, Arc::clone(&cancelled));
                if jobs.send(Job { id, ask, cancelled }).is_err() {
                    break;
                }
            }
            ToModel::Cancel { id } => {
                if let Some(cancelled) = asked.remove(&id) {
                    cancelled.store(true, Ordering::Relaxed);
                }
            }
            ToModel::Load(_) => break,
        }
    }
    0
}

/// Runs the thread of the model: loads it, reports that, and answers.
fn run(path: &Path, machine: Machine, inbox: &mpsc::Receiver<Job>, replies: Replies) {
    let replies = Rc::new(replies);
    let model = match load(path, &replies) {
        Ok(model) => model,
        Err(reason) => {
            replies.send(&FromModel::Unusable { reason });
            return;
        }
    };
    let mut session = Session::new(&model, machine, &replies);
    replies.send(&FromModel::Loaded);
    session.run(inbox);
}

fn load(path: &Path, replies: &Rc<Replies>) -> Result<LlamaModel, String> {
    let sign = Rc::clone(replies);
    let parameters = LlamaModelParams::default().with_progress_callback(move |_| {
        sign.keep_alive();
        true
    });
    let model = LlamaModel::load_from_file(llama::backend(), path, &parameters)
        .map_err(|error| llama::take_complaint().unwrap_or_else(|| error.to_string()))?;
    // These load but can't continue a text; asking them to would end the process.
    let meta = |key: &str| model.meta_val_str(key).unwrap_or_default();
    let architecture = meta("general.architecture");
    let causal = meta(&format!("{architecture}.attention.causal")) != "false";
    if !causal || architecture.starts_with("t5") || architecture.contains("bert") || architecture == "clip" {
        return Err(format!("a model of architecture `{architecture}` does not generate text"));
    }
    if model.n_vocab() == 0 || model.n_ctx_train() == 0 {
        return Err("it holds no vocabulary".into());
    }
    Ok(model)
}
