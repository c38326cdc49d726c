//! The port of a platform: what programs that are opened on it can have.

use crate::{
    effects::Effects,
    grant::{Grant, MissingGrant},
    model_choice::DetectedModel,
    obstacle::Obstacle,
    options::Client,
    ports::Ambient,
};
use llm_do_core::{
    attachment::Attachment,
    authority::Place,
    gate::FileSet,
    journal::Runtime,
    model::{ModelName, Models},
    origin::{UntrustedPlaces, UntrustedSet},
    send::{MaybeSend, MaybeSync},
    spending::Spending,
    toolset::ToolsetRegistry,
    vfs::FileSystem,
    worker::WorkerDefinition,
};
use llm_do_program::{UserConfig, manifest::Provider};
use llm_do_records::Redactor;
use std::{collections::BTreeMap, io, path::Path, sync::Arc};

/// The means of one opened program: files, models, kinds of toolsets, environment, grants, time.
///
/// A terminal, a service, a page and a node of a cluster each implement it. All sessions of the program share it.
pub trait Host: MaybeSend + MaybeSync + 'static {
    /// A reason why this host can't open a program or start a run.
    type Problem: From<Obstacle>;

    /// Returns the effects that runs may have.
    fn effects(&self) -> Effects {
        Effects::Allowed
    }
    /// Returns the kinds of toolsets.
    fn toolsets(&self) -> &Arc<ToolsetRegistry>;
    /// Returns the files of runs.
    fn files(&self) -> &Arc<dyn FileSystem>;
    /// Returns the redactor, which removes secrets from records.
    fn redactor(&self) -> &Arc<Redactor>;
    /// Returns time and randomness.
    fn ambient(&self) -> Arc<dyn Ambient>;
    /// Returns the date in UTC, as templates see it.
    fn today(&self) -> Arc<str>;

    /// Returns the value of an environment variable.
    fn variable(&self, _name: &str) -> Option<String> {
        None
    }
    /// Returns true if code may get that variable when it is granted, because the redactor knows its value.
    fn keeps_secret(&self, _variable: &str) -> bool {
        false
    }
    /// Returns the user's configuration.
    fn user(&self) -> &UserConfig;
    /// Returns the current directory as invocations record it.
    fn current_dir(&self) -> &Path;
    /// Returns the place that relative paths of an input start from. Without it, this is the program's root.
    fn here(&self) -> Option<&Place> {
        None
    }
    /// Returns the place that a path leads to, with links resolved.
    ///
    /// # Errors
    /// The path can't be resolved.
    fn real(&self, path: &Path) -> io::Result<Place>;

    /// Returns the models of the host's providers. No grant was checked.
    fn models(&self) -> Arc<dyn Models>;
    /// Returns the providers that the program's manifest declares and that [`models`](Self::models) knows.
    fn declared(&self) -> &BTreeMap<String, Provider>;
    /// Returns a model for workers that name none, if the host finds one.
    fn detected_model(&self) -> Option<DetectedModel> {
        None
    }
    /// Returns the model that a name stands for at this moment, if a resumed run must get the same one.
    fn settled(&self, name: ModelName) -> ModelName {
        name
    }
    /// Returns the budgets over time that count the runs of an entry.
    ///
    /// # Errors
    /// The budgets can't be read.
    fn budgets(
        &self,
        _entry: &WorkerDefinition,
        _client: Option<&Client>,
    ) -> Result<Option<Arc<dyn Budgets>>, Self::Problem> {
        Ok(None)
    }

    /// Returns what these workers need from this host beyond the grants that every host asks for, such as processes
    /// that can't be confined.
    fn missing(&self, _workers: &[Arc<WorkerDefinition>], _grants: &[Grant]) -> Vec<MissingGrant> {
        Vec::new()
    }
    /// Returns true if the program with that identity gets all missing grants. It gets all or none.
    ///
    /// # Errors
    /// Earlier answers can't be read.
    fn grant(&self, program: &Place, missing: &[MissingGrant]) -> Result<bool, Self::Problem>;
    /// Gives effect to grants that concern the host and not one run's authority.
    ///
    /// # Errors
    /// The host can't do what was granted.
    fn apply(&self, _grants: &[Grant]) -> Result<(), Self::Problem> {
        Ok(())
    }
    /// Returns the places of files beside the program's definitions that decide about runs. No run may change them.
    fn deciding_places(&self, _files: &DecidingFiles<'_>) -> Vec<Place> {
        Vec::new()
    }

    /// Reads a file that the operator attaches to the input of a worker.
    ///
    /// # Errors
    /// The reason why it can't be read.
    fn attachment(&self, path: &Path, worker: &WorkerDefinition) -> Result<Attachment, String>;
    /// Returns the runtimes that run the code of these workers' tools, for the start record.
    fn runtimes(&self, _workers: &[Arc<WorkerDefinition>]) -> Vec<Runtime> {
        Vec::new()
    }
    /// Returns the places to which earlier runs of the program wrote untrusted words.
    ///
    /// # Errors
    /// The places can't be read.
    fn untrusted_places(&self) -> Result<Arc<dyn UntrustedPlaces>, Self::Problem> {
        Ok(Arc::new(UntrustedSet::default()))
    }
}

/// Budgets over time that count the runs of a session.
pub trait Budgets: MaybeSend + MaybeSync {
    /// Returns the budgets for one further run, which has no refusals yet.
    fn for_run(&self) -> Arc<dyn Spending>;
}

/// The files that decide about a run beside its definitions.
pub struct DecidingFiles<'a> {
    /// Sets that rules of the operator name, relative to the current directory.
    pub sets_of_operator: Vec<&'a FileSet>,
    /// Sets that rules of the user's configuration name, relative to the folder of that configuration.
    pub sets_of_user: Vec<&'a FileSet>,
    /// The models that workers may ask.
    pub models: Vec<ModelName>,
}
