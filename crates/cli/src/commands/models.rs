//! `llm-do models`: lists, downloads and removes local models (docs/guides/local-models.md).

use crate::{args::ModelsCommand, exit::Complaint, render::Output, terminal::Terminal, visible};
use indicatif::{ProgressBar, ProgressStyle};
use llm_do_inference::{CATALOGUE, Entry, Progress, PullError, Source, Store, catalogue};
use serde_json::json;
use std::path::Path;

/// Carries out the command. `store` is the folder of the models.
pub(crate) fn run(command: &ModelsCommand, store: &Store, output: &Output) -> Result<(), Complaint> {
    match command {
        ModelsCommand::List => list(store, output),
        ModelsCommand::Pull { name } => {
            let name = name.as_deref().unwrap_or(catalogue::DEFAULT);
            let entry = catalogue::find(name).ok_or_else(|| unknown(name))?;
            let path = pull(store, entry, output)?;
            output.note(&format!("`{name}` is at {}; run it with `--model local:{name}`", path.display()));
            Ok(())
        }
        ModelsCommand::Remove { name } => match store.remove(name) {
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

fn unknown(name: &str) -> Complaint {
    let names: Vec<&str> = CATALOGUE.iter().map(|entry| entry.name).collect();
    Complaint::wrong(format!("no model `{name}` in the catalogue"))
        .hint(format!("there is: {}", names.join(", ")))
        .hint("any other GGUF file runs as it is: `--model local:PATH.gguf`")
}

fn list(store: &Store, output: &Output) -> Result<(), Complaint> {
    let installed = store
        .list()
        .map_err(|error| Complaint::failed(format!("cannot read {}: {error}", store.dir().display())))?;
    let here = |name: &str| installed.iter().find(|model| model.name == name);
    if output.format != crate::args::Format::Text {
        let catalogue = CATALOGUE.iter().map(|entry| {
            json!({"name": entry.name, "description": entry.description, "size": entry.size,
                "licence": entry.licence, "installed": here(entry.name).map(|model| &model.path)})
        });
        let own = installed.iter().filter(|model| catalogue::find(&model.name).is_none());
        let own = own.map(|model| json!({"name": model.name, "size": model.size, "installed": model.path}));
        output
            .print_json(&json!({"folder": store.dir(), "models": catalogue.chain(own).collect::<Vec<_>>()}));
        return Ok(());
    }
    let mut text = String::new();
    for entry in CATALOGUE {
        let state = if here(entry.name).is_some() {
            output.out.green("installed").to_string()
        } else {
            output.out.dim("not here").to_string()
        };
        text.push_str(&format!(
            "{}  {}  {}  {state}\n    {}\n",
            output.out.bold(entry.name),
            megabytes(entry.size),
            entry.licence,
            entry.description
        ));
    }
    for model in installed.iter().filter(|model| catalogue::find(&model.name).is_none()) {
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

/// Fetches a model, with a progress bar where a person watches.
pub(crate) fn pull(store: &Store, entry: &Entry, output: &Output) -> Result<std::path::PathBuf, Complaint> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Complaint::failed(format!("cannot start: {error}")))?;
    let bar = if output.quiet || !output.err_terminal {
        ProgressBar::hidden()
    } else {
        ProgressBar::new(entry.size)
    };
    let style =
        ProgressStyle::with_template("{msg} {bar:30} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta}");
    bar.set_style(style.expect("the template is sound"));
    let tell = |line: String| {
        if bar.is_hidden() { output.note(&line) } else { bar.println(format!("note: {line}")) }
    };
    let outcome = runtime.block_on(store.pull(entry, |progress| match progress {
        Progress::Waiting => tell("another process is fetching it; waiting for that one".into()),
        Progress::Asking { source } => {
            bar.set_message(entry.name);
            tell(format!("fetching `{}` ({}) from {source}", entry.name, megabytes(entry.size)));
        }
        Progress::Bytes { done, total } => {
            bar.set_length(total);
            bar.set_position(done);
        }
        Progress::Resuming { reason } => {
            tell(format!("the connection failed ({reason}); trying again"));
        }
        Progress::Fallback { failed, reason, next } => {
            bar.reset();
            tell(format!("{failed} did not give it ({reason}); trying {next}"));
        }
        Progress::Verifying => bar.set_message("checking"),
    }));
    bar.finish_and_clear();
    outcome.map_err(|error| complaint(&error))
}

fn complaint(error: &PullError) -> Complaint {
    let complaint = Complaint::failed(error.to_string());
    match error {
        PullError::Sources { .. } => complaint
            .hint("check the network and the proxy variables, then run it again; it keeps what has arrived"),
        PullError::Folder { .. } => complaint.hint("LLM_DO_HOME may name another folder"),
    }
}

/// Asks once whether the smallest model may be fetched, because nothing else can answer. `false`: no.
pub(crate) fn offer(terminal: &Terminal, store: &Store) -> bool {
    let entry = &CATALOGUE[0];
    let from = entry.sources.first().map(Source::label).unwrap_or_default();
    let question = format!(
        "No model is set up here: no provider's key in the environment, no Ollama, no local model.\n\
         Fetch one that runs inside this program?\n  {}\n  {}, licence {}, from {from}, into {}\n[y]es  [n]o ",
        entry.description,
        megabytes(entry.size),
        entry.licence,
        visible::line(&store.dir().display().to_string()),
    );
    terminal.choose(|_| question.clone(), &[('y', "yes"), ('n', "no")]) == Some('y')
}

/// The advice where no operator can be asked.
pub(crate) fn without_model(complaint: Complaint) -> Complaint {
    let name = catalogue::DEFAULT;
    complaint
        .hint(format!(
            "fetch the model that needs no key ({}): `llm-do models pull {name}`",
            megabytes(CATALOGUE[0].size)
        ))
        .hint("or set a provider's key, such as ANTHROPIC_API_KEY or OPENAI_API_KEY")
}

/// Whether the model that needs no key is here.
pub(crate) fn is_here(store: &Store) -> bool {
    Path::new(&store.path(catalogue::DEFAULT)).is_file()
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes.div_ceil(1_000_000))
}
