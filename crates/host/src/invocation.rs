//! The invocation of a run, as its journal records it, so that the run can be resumed and replayed.

use crate::{
    grant::Grant,
    input::Input,
    options::{Client, RunOptions},
};
use llm_do_core::{
    authority::Place,
    client_tool::ClientTool,
    gate::{Calls, FileSet, Mode, Rule, RuleLine, Set, ToolSets},
    ledger::Budget,
    model::{ModelName, ModelSettings},
    worker::GivenLimits,
};
use llm_do_program::Request;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The operator's command, and the current directory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Invocation {
    /// The program.
    pub request: Request,
    /// The current directory.
    pub here: PathBuf,
    /// [`RunOptions::model`].
    pub model: Option<ModelName>,
    /// [`RunOptions::set`].
    pub set: ModelSettings,
    /// [`RunOptions::limits`].
    #[serde(skip_serializing_if = "says_nothing")]
    pub limits: GivenLimits,
    /// [`RunOptions::mode`].
    pub mode: Option<Mode>,
    /// [`RunOptions::rules`].
    pub rules: Vec<RuleGiven>,
    /// [`RunOptions::grants`].
    pub grants: Vec<String>,
    /// [`RunOptions::budget`].
    pub budget: Budget,
    /// [`RunOptions::chat`].
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub chat: bool,
    /// [`RunOptions::untrusted_input`].
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub untrusted_input: bool,
    /// [`RunOptions::client`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<Client>,
    /// [`RunOptions::client_tools`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub client_tools: Vec<ClientTool>,
    /// The input of the entry.
    pub input: Input,
}

fn says_nothing(limits: &GivenLimits) -> bool {
    *limits == GivenLimits::default()
}

/// A rule of the operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuleGiven {
    /// The calls that it applies to.
    pub pattern: String,
    /// The rule's effect.
    pub rule: Rule,
    /// The place where the rule is written.
    #[serde(rename = "origin")]
    pub written_at: Arc<str>,
    /// The sets of its conditions that were read from files, as the rule names them. A resumed run keeps them, whatever
    /// the files hold by then.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[serde(default)]
    pub sets: BTreeMap<String, Vec<Value>>,
}

/// Returns the name of a set from a file, with its values.
fn recorded(set: &Set) -> Option<(String, Vec<Value>)> {
    Some((set.file()?.to_string(), set.values(&ToolSets::none()).ok()?.to_vec()))
}

/// A rule or grant of a recorded invocation that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadInvocation(pub String);

impl Invocation {
    /// Returns the options of the original invocation; `base` provides those that are not recorded. `real` finds the place
    /// that a path leads to.
    ///
    /// # Errors
    /// A rule or grant can't be read.
    pub fn options(
        &self,
        base: RunOptions,
        real: &dyn Fn(&Path) -> io::Result<Place>,
    ) -> Result<RunOptions, BadInvocation> {
        let Invocation {
            model,
            set,
            limits,
            mode,
            rules,
            grants,
            budget,
            chat,
            untrusted_input,
            client,
            client_tools,
            ..
        } = self.clone();
        let rules = rules.into_iter().map(|RuleGiven { pattern, rule, written_at, sets }| {
            let read = |set: &FileSet| {
                sets.get(&set.to_string()).cloned().ok_or_else(|| format!("{set} was not recorded"))
            };
            let Calls { pattern, conditions } =
                Calls::parse(&pattern, &read).map_err(|error| BadInvocation(error.to_string()))?;
            Ok(RuleLine::new(pattern, rule, written_at).when(conditions))
        });
        let grants = grants
            .iter()
            .map(|text| Grant::parse(text, real).map_err(|error| BadInvocation(error.to_string())));
        Ok(RunOptions {
            model,
            set,
            limits,
            mode,
            budget,
            chat,
            untrusted_input,
            client,
            client_tools,
            rules: rules.collect::<Result<_, _>>()?,
            grants: grants.collect::<Result<_, _>>()?,
            ..base
        })
    }
}

/// The recorded invocation of runs with the same options, without the input. It is made once, so that a run need not
/// serialise the rest again.
#[derive(Clone)]
pub(crate) struct Started {
    /// The members of the record, or `None` if a path is not Unicode and can't be recorded.
    without_input: Option<Map<String, Value>>,
}

impl Started {
    pub(crate) fn new(request: &Request, here: &Path, options: &RunOptions) -> Self {
        let rules = options.rules.iter().map(|line| RuleGiven {
            pattern: line.calls().to_string(),
            rule: line.rule,
            written_at: Arc::clone(&line.written_at),
            sets: line.conditions.sets().filter_map(recorded).collect(),
        });
        let invocation = Invocation {
            request: request.clone(),
            here: here.to_owned(),
            model: options.model.clone(),
            set: options.set.clone(),
            limits: options.limits,
            mode: options.mode,
            rules: rules.collect(),
            grants: options.grants.iter().map(ToString::to_string).collect(),
            budget: options.budget,
            chat: options.chat,
            untrusted_input: options.untrusted_input,
            client: options.client.clone(),
            client_tools: options.client_tools.clone(),
            input: Input::default(),
        };
        let without_input = match serde_json::to_value(invocation) {
            Ok(Value::Object(members)) => Some(members),
            _ => None,
        };
        Self { without_input }
    }

    /// Returns the record of a run with this input. A run whose paths can't be recorded can't be resumed.
    pub(crate) fn with(&self, input: &Input) -> Arc<Value> {
        let (Some(members), Ok(input)) = (&self.without_input, serde_json::to_value(input)) else {
            return Arc::default();
        };
        let mut members = members.clone();
        members.insert("input".to_owned(), input);
        Arc::new(Value::Object(members))
    }
}
