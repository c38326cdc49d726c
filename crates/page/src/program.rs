//! A program of the page: its files, its findings, and sessions of its workers.

use crate::{
    bridge::Bridge,
    host::{Means, PageHost},
    kinds,
    message::{ErrorKind, Options},
    problem::ApiError,
    tree::{PageTree, loaded},
};
use llm_do_core::{
    gate::{Calls, FileSet, Mode, Rule, RuleLine},
    ledger::Budget,
    origin::UntrustedSet,
    question::Requester,
};
use llm_do_host::{Grant, Host as _, Loaded, ModelSource, Opening, RunOptions, Session};
use llm_do_models::Providers;
use llm_do_program::{
    Checker, Diagnostic, LoadOptions, Request, Source, Start, exports,
    source::{OverlayTree, SourceTree},
};
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

/// The channel of the visitor's requests, as records name it.
const VIA: &str = "page";

/// The providers that are known without keys, and those that a page adds.
fn provider_names(providers: &Providers) -> Vec<String> {
    let mut names: Vec<String> = providers.names().into_iter().map(str::to_owned).collect();
    names.push("local".into());
    names
}

/// Returns what a page can load: the kinds of toolsets and the providers that it knows.
pub fn load_options() -> LoadOptions {
    let means = Means {
        bridge: Bridge::default(),
        options: Arc::default(),
        run: None,
        scripts: BTreeMap::new(),
        untrusted: Arc::default(),
    };
    LoadOptions {
        toolsets: kinds::kinds(),
        providers: provider_names(&means.providers()),
        ..LoadOptions::default()
    }
}

/// A program.
pub(crate) struct PageProgram {
    pub(crate) name: Arc<str>,
    bridge: Bridge,
    tree: Arc<PageTree>,
    /// The places to which its runs wrote untrusted words.
    untrusted: Arc<UntrustedSet>,
    checker: Mutex<Option<Checker>>,
}

/// The settings of one run in a request of the app.
#[derive(Default)]
pub(crate) struct Asked {
    pub(crate) chat: bool,
    pub(crate) approval: Option<Mode>,
    pub(crate) ask: Vec<String>,
    pub(crate) deny: Vec<String>,
    pub(crate) budget: Vec<String>,
}

impl PageProgram {
    /// Lists the files of a program.
    ///
    /// # Errors
    /// There is no such program.
    pub(crate) async fn open(
        bridge: &Bridge,
        name: &str,
        untrusted: Arc<UntrustedSet>,
    ) -> Result<Arc<Self>, ApiError> {
        let tree = PageTree::list(bridge, name).await.map_err(|error| match error.kind {
            ErrorKind::Missing | ErrorKind::WrongKind => no_program(name),
            _ => error.into(),
        })?;
        Ok(Arc::new(Self {
            name: name.into(),
            bridge: bridge.clone(),
            tree,
            untrusted,
            checker: Mutex::default(),
        }))
    }

    pub(crate) fn tree(&self) -> &Arc<PageTree> {
        &self.tree
    }

    fn source(&self, tree: Arc<dyn SourceTree>, start: Option<String>) -> Source {
        Source { tree, start: Start::Entry(start), manifest: true, work: None }
    }

    fn means(&self, options: &Arc<Options>, run: Option<Arc<str>>) -> Means {
        Means {
            bridge: self.bridge.clone(),
            options: Arc::clone(options),
            run,
            scripts: BTreeMap::new(),
            untrusted: Arc::clone(&self.untrusted),
        }
    }

    /// Returns the findings of `check`, with these texts in the place of files.
    pub(crate) async fn check(&self, texts: &BTreeMap<String, String>) -> Vec<Diagnostic> {
        let host = load_options();
        let mut kept = self.checker.lock().unwrap_or_else(PoisonError::into_inner).take();
        let found = loaded(&self.bridge, &self.tree, || {
            // A check that lacked a file is done again as a whole.
            let mut checker = kept.take().unwrap_or_else(|| {
                Checker::new(self.source(Arc::clone(&self.tree) as _, None), host.clone())
            });
            let (found, _) = checker.check(texts.clone());
            if !self.tree.lacks() {
                kept = Some(checker);
            }
            found
        })
        .await;
        *self.checker.lock().unwrap_or_else(PoisonError::into_inner) = kept;
        found
    }

    /// Calls `with` with the checker as of the last [`PageProgram::check`].
    pub(crate) fn checked<T>(&self, with: impl FnOnce(Option<&Checker>) -> T) -> T {
        with(self.checker.lock().unwrap_or_else(PoisonError::into_inner).as_ref())
    }

    /// Returns the workers that the manifest exports; if it exports none, the entry.
    pub(crate) async fn exported(&self) -> Vec<Option<String>> {
        let read = || exports(&self.source(Arc::clone(&self.tree) as _, None));
        let found = loaded(&self.bridge, &self.tree, read).await;
        if found.is_empty() { vec![None] } else { found.into_iter().map(Some).collect() }
    }

    /// Opens a worker as the entry of a session. `run`: the run whose records precede the session's effects.
    ///
    /// # Errors
    /// The program is wrong, or the page can't run it.
    pub(crate) async fn session(
        &self,
        worker: Option<&str>,
        options: &Arc<Options>,
        run: Option<Arc<str>>,
        texts: &BTreeMap<String, String>,
        given: impl Fn(&PageHost) -> Result<RunOptions, ApiError>,
    ) -> Result<Session<PageHost>, ApiError> {
        let loaded = self.load(worker, options, run, texts).await?;
        let options = given(loaded.host())?;
        Ok(loaded.grant(options, ModelSource::Providers)?.open()?)
    }

    /// Loads the program with a worker as its entry.
    ///
    /// # Errors
    /// The program is wrong.
    pub(crate) async fn load(
        &self,
        worker: Option<&str>,
        options: &Arc<Options>,
        run: Option<Arc<str>>,
        texts: &BTreeMap<String, String>,
    ) -> Result<Loaded<PageHost>, ApiError> {
        // A run may load workers later, when files can't be waited for: a check reads everything that belongs to the
        // program.
        self.check(&BTreeMap::new()).await;
        let scripts = self.scripts(options).await;
        let tree: Arc<dyn SourceTree> = match texts.is_empty() {
            true => Arc::clone(&self.tree) as _,
            false => Arc::new(OverlayTree::new(Arc::clone(&self.tree) as _, texts.clone())),
        };
        let request = Request { entry: worker.map(str::to_owned), ..Request::default() };
        let loading = || {
            let means = Means { scripts: scripts.clone(), ..self.means(options, run.clone()) };
            let opening = Opening {
                source: self.source(Arc::clone(&tree), worker.map(str::to_owned)),
                load_options: load_options(),
                request: request.clone(),
            };
            Loaded::load(opening, |program| {
                let mut means = means;
                let workers = program.loaded();
                let models = workers.iter().flat_map(|worker| &worker.models).chain(program.models());
                means.scripts.extend(self.scripts_of(models.map(ToString::to_string)));
                Ok(means.host(program))
            })
        };
        Ok(loaded(&self.bridge, &self.tree, loading).await?)
    }

    /// Reads the script that replaces the models, if the visitor has chosen one.
    async fn scripts(&self, options: &Options) -> BTreeMap<String, String> {
        let named = || options.model.iter().chain(&options.default_model).cloned();
        loaded(&self.bridge, &self.tree, || self.scripts_of(named())).await
    }

    /// Returns the scripts among these models, by path, as far as they were read.
    fn scripts_of(&self, models: impl Iterator<Item = String>) -> BTreeMap<String, String> {
        let text = |model: String| {
            let path = model.strip_prefix("script:")?.trim_start_matches("./").to_owned();
            let bytes = self.tree.read(&path, 1 << 20).ok()?;
            Some((path, String::from_utf8_lossy(&bytes).into_owned()))
        };
        models.filter_map(text).collect()
    }
}

/// Makes the options of a run from those of the visitor and of a request.
///
/// # Errors
/// A rule, a grant, a limit or a model can't be read.
pub(crate) fn run_options(options: &Options, asked: &Asked, host: &PageHost) -> Result<RunOptions, ApiError> {
    let model = match &options.model {
        Some(name) => Some(name.parse().map_err(|error| ApiError::bad(format!("model: {error}")))?),
        None => None,
    };
    let mut rules = Vec::new();
    let lines = [
        ("deny", &options.deny, Rule::Blocked),
        ("ask", &options.ask, Rule::Ask),
        ("allow", &options.allow, Rule::PreApproved),
        ("deny", &asked.deny, Rule::Blocked),
        ("ask", &asked.ask, Rule::Ask),
    ];
    for (field, given, rule) in lines {
        for text in given {
            rules.push(rule_line(field, text, rule)?);
        }
    }
    let mut budget = Budget::default();
    for text in options.budget.iter().chain(&asked.budget) {
        budget = budget.and(text).map_err(|error| ApiError::bad(format!("budget: {error}")))?;
    }
    let own = options.approval.unwrap_or_default();
    let mode = match asked.approval {
        None => own,
        Some(wanted) if own.tighten(wanted) == wanted => wanted,
        Some(_) => {
            let detail =
                "approval: a request can only tighten the mode of the page, for example with `auto_deny`";
            return Err(ApiError::new(403, "forbidden", detail));
        }
    };
    let real = |path: &Path| host.real(path);
    let grants = options.grants.iter().map(|text| Grant::parse(text, &real));
    let grants =
        grants.collect::<Result<_, _>>().map_err(|error| ApiError::bad(format!("grants: {error}")))?;
    Ok(RunOptions {
        model,
        mode: Some(mode),
        can_ask: true,
        rules,
        grants,
        budget,
        chat: asked.chat,
        requester: Requester::operator(VIA),
        ..RunOptions::default()
    })
}

fn rule_line(field: &str, text: &str, rule: Rule) -> Result<RuleLine, ApiError> {
    let wrong = |error: &dyn std::fmt::Display| ApiError::bad(format!("{field}: {error}"));
    let no_files = |_: &FileSet| Err("a rule of a page can't name files".to_owned());
    let Calls { pattern, conditions } = Calls::parse(text, &no_files).map_err(|error| wrong(&error))?;
    if conditions.sets().any(|set| set.file().is_some()) {
        return Err(wrong(&"a rule of a page can't name files"));
    }
    Ok(RuleLine::new(pattern, rule, format!("{field} {text} of the page")).when(conditions))
}

pub(crate) fn no_program(name: &str) -> ApiError {
    let shown: String = name.chars().filter(|c| !c.is_control()).take(60).collect();
    ApiError::not_found(format!("there is no program `{shown}`"))
}
