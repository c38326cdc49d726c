//! `llm-do models`: lists, downloads and removes local models (docs/guides/local-models.md).

use crate::{
    args::{Format, ModelsCommand},
    exit::{Complaint, Exit},
    interrupt::Interrupts,
    paint::Paint,
    render::Output,
    terminal::Terminal,
    visible,
};
use indicatif::{ProgressBar, ProgressStyle};
use llm_do_inference::{
    CATALOGUE, Download, Entry, Hub, HubError, HubName, Installed, Progress, PullError, Source, Store,
    Weights, catalogue, hub, memory,
};
use serde_json::json;
use std::{
    cell::RefCell,
    env,
    io::{self, Write as _},
    path::PathBuf,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

/// Time after which a command that still fetches shows its progress, and what to do without a network.
const FIRST_WORD: Duration = Duration::from_millis(1500);

/// Runs the command. `store` is the folder of the models.
pub(crate) fn run(command: &ModelsCommand, store: &Store, output: &Output) -> Result<(), Complaint> {
    match command {
        ModelsCommand::List => list(store, output),
        ModelsCommand::Suggest => {
            suggest(store, output);
            Ok(())
        }
        ModelsCommand::Pull { name } => {
            let told = output.clone();
            let interrupts = Interrupts::listen(None)
                .map_err(|error| Complaint::failed(format!("cannot listen to signals: {error}")))?;
            interrupts.on_first(move || interrupted(&told));
            let name = name.as_deref().unwrap_or(catalogue::DEFAULT);
            let (name, path) = match name.strip_prefix("hf:") {
                Some(hub) => from_hub(store, &hub_name(hub)?, None, output)?,
                None => {
                    let entry = catalogue::find(name).ok_or_else(|| unknown(name))?;
                    (name.to_owned(), pull(store, entry, output)?)
                }
            };
            output.note(&format!("`{name}` is at {}; run it with `--model local:{name}`", path.display()));
            Ok(())
        }
        ModelsCommand::Remove { name } => match store.remove(name.strip_prefix("hf:").unwrap_or(name)) {
            Ok(Some(bytes)) => {
                output.note(&format!("`{name}` is deleted; {} are free", megabytes(bytes)));
                Ok(())
            }
            Ok(None) => {
                Err(Complaint::wrong(format!("`{name}` is not installed in {}", store.dir().display()))
                    .hint("`llm-do models list` shows those that are"))
            }
            Err(error) => Err(Complaint::failed(format!("cannot delete `{name}`: {error}"))),
        },
    }
}

/// Ends the process in the middle of a download. The next download continues it.
fn interrupted(output: &Output) {
    // The progress bar has the row of the cursor.
    let line_break = if output.err_terminal { "\n" } else { "" };
    // There is nowhere to say that stderr is gone.
    let _ = writeln!(io::stderr(), "{line_break}note: interrupted; the same command continues the download");
    std::process::exit(Exit::Interrupted.code().into());
}

fn unknown(name: &str) -> Complaint {
    let names: Vec<&str> = CATALOGUE.iter().map(|entry| entry.name).collect();
    let complaint = Complaint::wrong(format!("no model `{name}` in the catalogue"))
        .hint(format!("there is: {}", names.join(", ")))
        .hint("any other GGUF file runs as it is: `--model local:PATH.gguf`");
    if name.parse::<HubName>().is_ok() {
        complaint.hint(format!("for the hub's model of that name: `llm-do models pull hf:{name}`"))
    } else {
        complaint
    }
}

fn hub_name(text: &str) -> Result<HubName, Complaint> {
    text.parse().map_err(|error: llm_do_inference::BadHubName| {
        Complaint::wrong(error.to_string()).hint("for example hf:Qwen/Qwen3-4B-GGUF:Q4_K_M")
    })
}

/// Fetches a model of the hub: `entry`, or one that is not in the catalogue. Returns its name in `local:NAME` and its
/// file.
fn from_hub(
    store: &Store,
    name: &HubName,
    entry: Option<&Entry>,
    output: &Output,
) -> Result<(String, PathBuf), Complaint> {
    let endpoint = env::var("HF_ENDPOINT").ok().filter(|it| !it.is_empty());
    let endpoint = endpoint.as_deref().unwrap_or(hub::ENDPOINT);
    let hub = Hub::new(endpoint, env::var("HF_TOKEN").ok()).map_err(|error| hub_complaint(&error))?;
    let memory = memory::total();
    let offline = Offline { url: None, place: entry.map(|entry| store.path(entry.name)) };
    let size = entry
        .map_or("of a size that is not known yet".into(), |entry| format!("about {}", megabytes(entry.size)));
    let unanswered = || {
        let host = Source::Url(endpoint).label();
        output.note(&format!("{name} ({size}): {host} has not answered yet"));
        offline.say(output);
    };
    let found = awaited(hub.find(name, memory), unanswered)?;
    let file = found.map_err(|error| match error {
        HubError::Offline { .. } => offline.add_to(hub_complaint(&error)),
        _ => hub_complaint(&error),
    })?;
    let needs = catalogue::memory_needed(file.size);
    let mut found = format!("{} of {name}, {}", visible::line(&file.path), megabytes(file.size));
    match &file.licence {
        Some(licence) => found.push_str(&format!(", licence {}", visible::line(licence))),
        None => found.push_str(", without a stated licence"),
    }
    let here = memory.map(|memory| format!("this machine has {}", megabytes(memory)));
    let needed = format!("it needs about {} of memory", megabytes(needs));
    let needed = here.map_or(needed.clone(), |here| format!("{needed}, and {here}"));
    if file.candidates > 1 {
        found.push_str(&format!("; chosen from {} files: {needed}", file.candidates));
    } else {
        found.push_str(&format!("; {needed}"));
    }
    output.note(&found);
    if memory.is_some_and(|memory| needs > memory) {
        output.note("this machine may be too small for it");
    }
    let download = file.download();
    let path = fetch(store, &download, output)?.map_err(|error| match error.is_gated() {
        true => hub_complaint(&file.gated()),
        false => complaint(&error, &Offline::of(store, &download)),
    })?;
    Ok((file.name, path))
}

fn hub_complaint(error: &HubError) -> Complaint {
    let complaint = match error {
        HubError::Endpoint(_) | HubError::NoFile { .. } | HubError::Split { .. } | HubError::NoGguf(_) => {
            Complaint::wrong(error.to_string())
        }
        _ => Complaint::failed(error.to_string()),
    };
    let in_stock = |has: &[(String, u64)]| -> String {
        let files =
            has.iter().map(|(label, size)| format!("{} ({})", visible::line(label), megabytes(*size)));
        files.collect::<Vec<_>>().join(", ")
    };
    match error {
        HubError::Endpoint(_) => {
            complaint.hint("set HF_ENDPOINT to an address with https, or to a server on this machine")
        }
        HubError::Offline { .. } => {
            complaint.hint("check the network and the proxy variables, or set HF_ENDPOINT to a mirror")
        }
        HubError::Missing { with_token: false, .. } => {
            complaint.hint("check the name; for a private model, set HF_TOKEN to a token that may read it")
        }
        HubError::Missing { .. } => {
            complaint.hint("check the name, and whether the token in HF_TOKEN may read it")
        }
        HubError::Gated { page, with_token, .. } => {
            let complaint = complaint.hint(format!("accept its conditions at {page}"));
            if *with_token {
                complaint.hint("the token in HF_TOKEN must be of the same account, and may need the right to read gated models")
            } else {
                complaint.hint("then set HF_TOKEN to a token of that account")
            }
        }
        HubError::Token => complaint.hint("make a new token at the hub, or unset HF_TOKEN"),
        HubError::Limited { with_token: false, .. } => {
            complaint.hint("wait, or set HF_TOKEN: users with a token may send more requests")
        }
        HubError::Limited { .. } | HubError::Status(_) => complaint.hint("try again later"),
        HubError::NoFile { has, .. } | HubError::Split { has, .. } if !has.is_empty() => {
            complaint.hint(format!("there is: {}", in_stock(has)))
        }
        HubError::NoneFits { memory, has, .. } => complaint
            .hint(format!("this machine has {}; there is: {}", megabytes(*memory), in_stock(has)))
            .hint("name a quantisation to pull it all the same: hf:OWNER/REPO:QUANT"),
        HubError::NoGguf(_) | HubError::Split { .. } => complaint
            .hint("look for a repository with GGUF files of the model; their names often end in -GGUF"),
        HubError::NoFile { .. } | HubError::Answer(_) => complaint,
    }
}

/// Waits for a network operation. If it takes longer than [`FIRST_WORD`], `say` is called.
fn awaited<T>(work: impl Future<Output = T>, say: impl FnOnce()) -> Result<T, Complaint> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Complaint::failed(format!("cannot start: {error}")))?;
    let done = runtime.block_on(async {
        let mut work = pin!(work);
        match tokio::time::timeout(FIRST_WORD, &mut work).await {
            Ok(done) => done,
            Err(_) => {
                say();
                work.await
            }
        }
    });
    // A lookup of a host's address can outlast its timeout. It is not waited for.
    runtime.shutdown_background();
    Ok(done)
}

/// Advice for a model that cannot be downloaded.
struct Offline<'a> {
    /// The address of the file, if it is known.
    url: Option<&'a str>,
    /// The place for the file, if it is known.
    place: Option<PathBuf>,
}

impl<'a> Offline<'a> {
    fn of(store: &Store, file: &Download<'a>) -> Self {
        let url = file.sources.iter().find_map(|source| match source {
            Source::Url(url) | Source::Hub { url, .. } => Some(*url),
            Source::PythonPackage { .. } => None,
        });
        Self { url, place: Some(store.path(file.name)) }
    }

    fn hints(&self) -> Vec<String> {
        let place = self.place.as_ref().map(|place| visible::line(&place.display().to_string()).to_string());
        let fetched = place.map(|place| match self.url {
            Some(url) => {
                format!(
                    "without a network: run `curl -LO {}` on another machine, and put the file at {place}",
                    visible::line(url)
                )
            }
            None => format!("without a network: put the model's GGUF file at {place}"),
        });
        let or = if fetched.is_some() { "or " } else { "" };
        let other = format!(
            "{or}use another model: `llm-do TARGET --model PROVIDER:MODEL`, or `--model local:PATH.gguf` for a file on \
             this machine"
        );
        fetched.into_iter().chain([other]).collect()
    }

    /// Shows the advice beside a note.
    fn say(&self, output: &Output) {
        for hint in self.hints().iter().filter(|_| !output.quiet) {
            output.line(&format!("{} {hint}", output.err.hint("hint:")));
        }
    }

    fn add_to(&self, complaint: Complaint) -> Complaint {
        self.hints().into_iter().fold(complaint, Complaint::hint)
    }
}

fn list(store: &Store, output: &Output) -> Result<(), Complaint> {
    let installed = store
        .list()
        .map_err(|error| Complaint::failed(format!("cannot read {}: {error}", store.dir().display())))?;
    let here = |entry: &Entry| installed.iter().find(|model| model.name == entry.installed_as());
    let others = || {
        let is_listed = |model: &&Installed| CATALOGUE.iter().any(|entry| entry.installed_as() == model.name);
        installed.iter().filter(move |model| !is_listed(model))
    };
    if output.format != crate::args::Format::Text {
        let catalogue = CATALOGUE.iter().map(|entry| {
            json!({"name": entry.name, "description": entry.description, "size": entry.size,
                "licence": entry.licence, "memory": entry.memory(), "tried": entry.tried,
                "installed": here(entry).map(|model| &model.path)})
        });
        let own =
            others().map(|model| json!({"name": model.name, "size": model.size, "installed": model.path}));
        output
            .print_json(&json!({"folder": store.dir(), "models": catalogue.chain(own).collect::<Vec<_>>()}));
        return Ok(());
    }
    let mut text = String::new();
    for entry in CATALOGUE {
        let state = if here(entry).is_some() {
            output.out.green("installed").to_string()
        } else {
            output.out.dim("not here").to_string()
        };
        let tried = if entry.tried { "" } else { "; not tried with llm-do" };
        text.push_str(&format!(
            "{}  {}  {}  {state}\n    {}\n    needs about {} of memory{tried}\n",
            output.out.bold(entry.name),
            megabytes(entry.size),
            entry.licence,
            entry.description,
            megabytes(entry.memory()),
        ));
    }
    for model in others() {
        let name = visible::line(&model.name);
        text.push_str(&format!(
            "{}  {}  {}\n",
            output.out.bold(name),
            megabytes(model.size),
            output.out.green("installed")
        ));
    }
    output.print(&text);
    Ok(())
}

/// Fetches a model of the catalogue.
pub(crate) fn pull(store: &Store, entry: &Entry, output: &Output) -> Result<PathBuf, Complaint> {
    match entry.weights {
        Weights::Hub(name) => Ok(from_hub(store, &hub_name(name)?, Some(entry), output)?.1),
        Weights::Pinned { sha256, sources } => {
            let file = Download { name: entry.name, size: entry.size, sha256, sources: sources.to_vec() };
            fetch(store, &file, output)?.map_err(|error| complaint(&error, &Offline::of(store, &file)))
        }
    }
}

/// Fetches a file, with a progress bar if a person watches.
fn fetch(
    store: &Store,
    file: &Download<'_>,
    output: &Output,
) -> Result<Result<PathBuf, PullError>, Complaint> {
    let bar = if output.quiet || !output.err_terminal {
        ProgressBar::hidden()
    } else {
        ProgressBar::new(file.size)
    };
    let style =
        ProgressStyle::with_template("{msg} {bar:30} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta}");
    bar.set_style(style.expect("the template is sound"));
    if !bar.is_hidden() {
        // The speed falls also while nothing comes.
        bar.enable_steady_tick(Duration::from_millis(500));
    }
    let tell = |line: &str| bar.suspend(|| output.note(line));
    let offline = Offline::of(store, file);
    let mut measured = false;
    let arrival = RefCell::new(Arrival::default());
    let pulling = store.pull(file, |progress| {
        arrival.borrow_mut().see(&progress);
        match progress {
            Progress::Waiting => tell("another process is fetching it; waiting for that one"),
            Progress::Asking { source } => {
                bar.set_message(file.name.to_owned());
                tell(&format!("fetching `{}` ({}) from {source}", file.name, megabytes(file.size)));
            }
            Progress::Bytes { done, total } => {
                bar.set_length(total);
                bar.set_position(done);
                // What an earlier download has left came at no speed.
                if !std::mem::replace(&mut measured, true) {
                    bar.reset_eta();
                }
            }
            Progress::Resuming { reason } => {
                tell(&format!("the connection failed ({reason}); trying again"));
            }
            Progress::Fallback { failed, reason, next } => {
                bar.reset();
                measured = false;
                tell(&format!("{failed} did not give it ({reason}); trying {next}"));
            }
            Progress::Verifying => bar.set_message("checking"),
        }
    });
    let outcome = awaited(pulling, || {
        if let Some(text) = arrival.borrow().told(Instant::now()) {
            tell(&format!("`{}` ({}) {text}", file.name, megabytes(file.size)));
        }
        bar.suspend(|| offline.say(output));
    });
    bar.finish_and_clear();
    outcome
}

/// Progress of a download from the current source.
#[derive(Default)]
struct Arrival {
    source: Option<String>,
    /// The first count of bytes on disk, and its time.
    first: Option<(u64, Instant)>,
    done: u64,
    total: u64,
}

impl Arrival {
    fn see(&mut self, progress: &Progress) {
        match progress {
            Progress::Asking { source } => *self = Self { source: Some(source.clone()), ..Self::default() },
            Progress::Bytes { done, total } => {
                // A server that can't resume begins from nothing.
                if self.first.is_none_or(|(first, _)| *done < first) {
                    self.first = Some((*done, Instant::now()));
                }
                (self.done, self.total) = (*done, *total);
            }
            _ => {}
        }
    }

    /// Formats the progress: `from HOST: 3 of 99 MB are here, 1.5 MB/s, about 1 min to go`. `None` while no source is
    /// asked.
    fn told(&self, now: Instant) -> Option<String> {
        let source = self.source.as_ref()?;
        let (before, since) = self.first.unwrap_or((self.done, now));
        let came = self.done.saturating_sub(before);
        if came == 0 {
            return Some(format!("from {source}: no byte has come yet"));
        }
        let speed = came as f64 / now.saturating_duration_since(since).as_secs_f64().max(0.001);
        let seconds = self.total.saturating_sub(self.done) as f64 / speed;
        let left = match seconds {
            ..60.0 => format!("{seconds:.0} s"),
            ..3600.0 => format!("{:.0} min", seconds / 60.0),
            _ => format!("{:.0} h", seconds / 3600.0),
        };
        Some(format!(
            "from {source}: {:.1} MB are here, {:.1} MB/s, about {left} to go",
            self.done as f64 / 1e6,
            speed / 1e6,
        ))
    }
}

fn complaint(error: &PullError, offline: &Offline<'_>) -> Complaint {
    let complaint = Complaint::failed(error.to_string());
    match error {
        PullError::Sources { .. } if error.is_of_content() => complaint
            .hint("nothing of another file was kept; run it again, and if that fails too, the source or a proxy gives a wrong file"),
        PullError::Sources { .. } => {
            offline.add_to(complaint.hint(
                "check the network and the proxy variables, then run it again; it keeps what has arrived",
            ))
        }
        PullError::Folder { .. } => complaint.hint("LLM_DO_HOME may name another folder"),
    }
}

/// Asks once if the smallest model may be fetched, because no other model is available. Returns false if not.
pub(crate) fn offer(terminal: &Arc<Terminal>, store: &Store, paint: Paint) -> bool {
    let entry = &CATALOGUE[0];
    let from = match entry.weights {
        Weights::Pinned { sources, .. } => sources.first().map(Source::label).unwrap_or_default(),
        Weights::Hub(_) => Source::Url(hub::ENDPOINT).label(),
    };
    let question = format!(
        "No model is set up here: no provider's key in the environment, no Ollama, no local model.\n\
         Fetch one that runs inside this program?\n  {}\n  {}, licence {}, from {from}, into {}\n",
        entry.description,
        megabytes(entry.size),
        entry.licence,
        visible::line(&store.dir().display().to_string()),
    );
    terminal.choose(move |_| question.clone(), &[('y', "yes"), ('n', "no")], paint) == Some('y')
}

/// Adds the advice for a session without an operator.
pub(crate) fn without_model(complaint: Complaint) -> Complaint {
    let name = catalogue::DEFAULT;
    complaint
        .hint(format!(
            "fetch the model that needs no key ({}): `llm-do models pull {name}`",
            megabytes(CATALOGUE[0].size)
        ))
        .hint("or set a provider's key, such as ANTHROPIC_API_KEY or OPENAI_API_KEY")
}

/// Returns the largest model of the catalogue that is installed and fits the memory.
pub(crate) fn best_here(store: &Store) -> Option<&'static Entry> {
    let memory = memory::total();
    let fits = |entry: &&Entry| memory.is_none_or(|memory| entry.memory() <= memory);
    CATALOGUE.iter().rev().filter(fits).find(|entry| store.locate(entry.name).is_ok())
}

/// Returns the largest model of the catalogue that leaves half of the memory to other programs, or else the smallest.
fn suggested(memory: Option<u64>) -> &'static Entry {
    let fits = |entry: &&Entry| memory.is_some_and(|memory| entry.memory() <= memory / 2);
    CATALOGUE.iter().rev().find(fits).unwrap_or(&CATALOGUE[0])
}

/// Names the model that fits this machine best, with its requirements and the command that fetches it.
fn suggest(store: &Store, output: &Output) {
    let memory = memory::total();
    let entry = suggested(memory);
    let command = format!("llm-do models pull {}", entry.name);
    let is_here = store.locate(entry.name).is_ok();
    if output.format != Format::Text {
        output.print_json(&json!({
            "memory": memory,
            "model": entry.name,
            "size": entry.size,
            "needs_memory": entry.memory(),
            "tried": entry.tried,
            "calls_tools": entry.calls_tools,
            "here": is_here,
            "command": command,
        }));
        return;
    }
    let of_machine = match memory {
        Some(memory) => format!(
            "this machine has {} of memory, of which a model should take at most half",
            megabytes(memory)
        ),
        None => "the memory of this machine is not known".to_owned(),
    };
    output.note(&of_machine);
    let can = match entry.calls_tools {
        true => "calls tools and other workers",
        false => "answers and fills typed outputs; too small for tools and other workers",
    };
    let tried = if entry.tried { "" } else { "; not tried with llm-do" };
    let (download, memory) = (megabytes(entry.size), megabytes(entry.memory()));
    output.print(&format!("{}\n", output.out.bold(entry.name)));
    output.print(&format!("    {}\n    {can}{tried}\n", entry.description));
    output.print(&format!("    {download} to download, needs about {memory} of memory\n"));
    match is_here {
        true => output.print("    it is here already\n"),
        false => output.print(&format!("    {}\n", output.out.bold(format!("$ {command}")))),
    }
}

pub(super) fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes.div_ceil(1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suggested_model_leaves_half_of_the_memory() {
        const GB: u64 = 1_000_000_000;
        for (memory, name) in [
            (None, "smollm2-135m-instruct"),
            (Some(GB / 4), "smollm2-135m-instruct"),
            (Some(4 * GB), "qwen3-0.6b"),
            (Some(8 * GB), "qwen3-4b"),
            (Some(64 * GB), "qwen3-30b-a3b"),
        ] {
            assert_eq!(suggested(memory).name, name, "{memory:?}");
        }
    }

    #[test]
    fn an_arrival_has_its_speed_from_the_first_byte_of_this_command() {
        let mut arrival = Arrival::default();
        assert_eq!(arrival.told(Instant::now()), None);
        arrival.see(&Progress::Asking { source: "host".into() });
        let bytes = |done| Progress::Bytes { done, total: 100_000_000 };
        // What an earlier command has left.
        arrival.see(&bytes(40_000_000));
        let (_, since) = arrival.first.expect("a count");
        let later = since + Duration::from_secs(2);
        assert_eq!(arrival.told(later).as_deref(), Some("from host: no byte has come yet"));
        arrival.see(&bytes(43_000_000));
        let told = arrival.told(later);
        assert_eq!(told.as_deref(), Some("from host: 43.0 MB are here, 1.5 MB/s, about 38 s to go"));
        // Another source begins from nothing.
        arrival.see(&Progress::Asking { source: "other".into() });
        assert_eq!(arrival.told(later).as_deref(), Some("from other: no byte has come yet"));
    }
}
