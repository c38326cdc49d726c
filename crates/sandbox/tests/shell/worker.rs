//! A worker that has commands.

use crate::bench::Bench;
use llm_do_core::{
    authority::{Access, Authority},
    function::{Effects, Implementation, Leaf, LeafCall},
    gate::Rule,
    shared::Results,
};
use llm_do_sandbox::{
    NativeFileSystem,
    confine::{Confinement, Confiner},
    shell::Shell,
};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) struct Worker {
    pub(crate) bench: Bench,
    authority: Authority,
    leaf: Arc<dyn Leaf>,
}

/// The value of every environment variable.
pub(crate) const SECRET: &str = "SECRET-of-the-environment";

impl Worker {
    /// Creates a worker with `/rw` for writing and `/ro` for reading, which may run every command.
    pub(crate) fn new(confinement: Confinement) -> Self {
        Self::with(confinement, MOUNTS, json!({"default": {"approval_required": false}}))
    }

    pub(crate) fn with(
        confinement: Confinement,
        mounts: &[(&str, &str, Access)],
        configuration: Value,
    ) -> Self {
        let bench = Bench::new();
        let authority = bench.authority(mounts);
        let environment = Arc::new(|name: &str| (name != "LC_ALL").then(|| SECRET.to_owned()));
        let shell = Shell::new(environment, Arc::new(Confiner::always(confinement)));
        let function = shell.made_for(&configuration, &authority, None).unwrap().expect("a tool");
        let Implementation::Leaf(leaf) = function.body else { panic!("it is a leaf") };
        Self { bench, authority, leaf }
    }

    /// Returns the toolset's verdict on a command, and the reason.
    pub(crate) fn judged(&self, command: &str) -> (Rule, String) {
        let effects = self.effects(command);
        let (rule, why) = effects.says.or_else(|| effects.rules.first().cloned()).unwrap();
        (rule, why.to_string())
    }

    pub(crate) fn effects(&self, command: &str) -> Effects {
        self.leaf.effects(&json!({"command": command}))
    }

    pub(crate) fn rule(&self, command: &str) -> Rule {
        self.judged(command).0
    }

    pub(crate) async fn call(&self, input: Value) -> Result<Value, String> {
        let files = NativeFileSystem::new();
        let call = LeafCall {
            redact: &llm_do_core::redact::NoSecrets,
            run: "run",
            input: &input,
            places: &[],
            authority: &self.authority,
            files: &files,
            results: Results::default(),
            untrusted: &llm_do_core::origin::UntrustedSet::default(),
            idempotency_key: "",
        };
        self.leaf.run(call).await.map(|output| output.value).map_err(|error| error.message)
    }

    /// Runs a command, as if it had been allowed.
    pub(crate) async fn run(&self, command: &str) -> Value {
        self.call(json!({"command": command})).await.unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    pub(crate) async fn error(&self, command: &str) -> String {
        self.call(json!({"command": command})).await.expect_err(command)
    }

    /// Returns the output of a command, which must succeed.
    pub(crate) async fn printed(&self, command: &str) -> String {
        let result = self.run(command).await;
        assert_eq!(result["exit_code"], 0, "{command}: {result}");
        result["stdout"].as_str().unwrap().to_owned()
    }
}

pub(crate) const MOUNTS: &[(&str, &str, Access)] =
    &[("/ro", "project/ro", Access::Read), ("/rw", "project/rw", Access::Write)];
