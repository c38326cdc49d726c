//! `script:FILE`: a model that answers from a file, for tests and demos. `docs/guides/models.md` describes the format.
//!
//! The answer depends on the request alone, so parallel and repeated runs get equal answers. The only state is the
//! number of times that an entry with `times` has answered a conversation.

mod format;

use crate::transport::Transport;
use format::{Answer, Entry, Failure, Script, Stream};
use llm_do_core::{
    call_path::CallPath,
    model::{
        Arguments, Capabilities, Delta, DeltaSink, FinishReason, Model, ModelError, ModelErrorKind,
        ModelRequest, ModelResponse, Part, Purpose, ToolCall, Usage,
    },
    send::BoxFuture,
    server_tool::ServerTool,
};
use minijinja::{Environment, UndefinedBehavior, context};
use serde_json::Value;
use std::{
    borrow::Cow,
    cell::OnceCell,
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Maximum excerpt of a message in an error, in characters.
const EXCERPT: usize = 200;

/// Maximum steps of a template in a script.
const FUEL: u64 = 100_000;

/// A conversation among those of all runs.
type Place = (Box<str>, CallPath);

/// The number of answers of each entry, by conversation.
type Used = HashMap<Place, HashMap<usize, u32>>;

/// Completes after a time.
type Sleep = dyn Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync;

/// An open script.
struct ScriptModel {
    script: Script,
    sleep: Arc<Sleep>,
    templates: Environment<'static>,
    /// The counts of entries with `times` only.
    used: Mutex<Used>,
}

/// Opens the script at this path, relative to the current directory.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn open(path: &str) -> Result<Arc<dyn Model>, ModelError> {
    model(sleep(), |check| Script::read(path, check))
}

/// Makes a model that answers from this script, which is in no file. `name` replaces the path in errors.
///
/// # Errors
/// The script has an error. The message has its line.
#[cfg(not(target_arch = "wasm32"))]
pub fn scripted(name: &str, text: &str) -> Result<Arc<dyn Model>, ModelError> {
    model(sleep(), |check| Script::from_text(name, text, check))
}

/// Makes a model that answers from this script, as `scripted` does, with the time of its host.
///
/// # Errors
/// The script has an error. The message has its line.
pub fn scripted_over(
    transport: &Arc<dyn Transport>,
    name: &str,
    text: &str,
) -> Result<Arc<dyn Model>, ModelError> {
    let transport = Arc::clone(transport);
    model(Arc::new(move |time| transport.after(time)), |check| Script::from_text(name, text, check))
}

#[cfg(not(target_arch = "wasm32"))]
fn sleep() -> Arc<Sleep> {
    Arc::new(|time| Box::pin(tokio::time::sleep(time)))
}

/// Makes the model of a script whose templates can be parsed.
fn model(
    sleep: Arc<Sleep>,
    read: impl FnOnce(&dyn Fn(&str) -> Result<(), String>) -> Result<Script, ModelError>,
) -> Result<Arc<dyn Model>, ModelError> {
    let templates = templates();
    let script =
        read(&|template| templates.template_from_str(template).map(drop).map_err(|error| error.to_string()))?;
    Ok(Arc::new(ScriptModel { script, sleep, templates, used: Mutex::default() }))
}

fn templates() -> Environment<'static> {
    let mut templates = Environment::new();
    templates.set_undefined_behavior(UndefinedBehavior::Strict);
    templates.set_fuel(Some(FUEL));
    templates
}

impl Model for ScriptModel {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    /// Returns none: a script can replace any provider.
    fn refused_server_tools(&self, _: &[ServerTool]) -> Vec<String> {
        Vec::new()
    }

    fn respond<'a>(
        &'a self,
        request: ModelRequest<'a>,
        deltas: &'a dyn DeltaSink,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            let asked = Asked { request, last: OnceCell::new() };
            let entry = self.choose(&asked).ok_or_else(|| self.nothing_fits(&asked))?;
            // Nothing of `Asked` may live across a pause: its cell is not for sharing.
            let answer = match &entry.error {
                Some(failure) => Err(self.failure(failure)),
                None => self.answer(&entry.answer, &asked),
            };
            drop(asked);
            if !entry.delay.is_zero() {
                (self.sleep)(entry.delay).await;
            }
            let answer = answer?;
            let mut calls = 0;
            for part in &answer.parts {
                self.tell(part, &entry.stream, &mut calls, deltas).await;
            }
            Ok(answer)
        })
    }

    fn answered_before(&self, request: ModelRequest<'_>) {
        // Counts the entry that has answered it.
        self.choose(&Asked { request, last: OnceCell::new() });
    }

    fn forget(&self, run: &str, conversation: &CallPath) {
        self.used().remove(&(Box::from(run), conversation.clone()));
    }
}

impl ScriptModel {
    fn used(&self) -> std::sync::MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the first entry that matches and isn't used up.
    fn choose(&self, asked: &Asked<'_>) -> Option<&Entry> {
        let fitting = self.script.answers.iter().enumerate().filter(|(_, entry)| asked.fits(entry));
        for (index, entry) in fitting {
            let Some(times) = entry.times else { return Some(entry) };
            let place: Place = (asked.request.run.into(), asked.request.conversation.clone());
            let mut used = self.used();
            let count = used.entry(place).or_default().entry(index).or_insert(0);
            if *count < times {
                *count += 1;
                return Some(entry);
            }
        }
        None
    }

    fn nothing_fits(&self, asked: &Asked<'_>) -> ModelError {
        let ModelRequest { worker, turn, purpose, .. } = asked.request;
        if purpose == Purpose::Summary {
            let path = &self.script.path;
            let message = format!(
                "script:{path}: no entry answers the request of worker `{worker}` for summary {turn} of its conversation. \
                 Add one to `answers` in {path}: `- {{when: {{purpose: summary}}, text: …}}`"
            );
            return ModelError::new(ModelErrorKind::BadRequest, message);
        }
        let last: String = asked.last().chars().take(EXCERPT).collect();
        let path = &self.script.path;
        ModelError::new(
            ModelErrorKind::BadRequest,
            format!(
                "script:{path}: no entry answers worker `{worker}`, turn {turn}, whose last message is {last:?}. \
                 Add one to `answers` in {path}, for example `- {{when: {{worker: {worker}, turn: {turn}}}, text: …}}`"
            ),
        )
    }

    fn failure(&self, failure: &Failure) -> ModelError {
        let message = failure.message.as_deref().unwrap_or("this error is in the script");
        let mut error = ModelError::new(failure.kind, format!("script:{}: {message}", self.script.path));
        error.retry_after_ms = failure.retry_after_ms;
        error
    }

    fn answer(&self, answer: &Answer, asked: &Asked<'_>) -> Result<ModelResponse, ModelError> {
        let mut parts = Vec::new();
        if let Some(text) = &answer.reasoning {
            parts.push(Part::Reasoning { text: self.text(text, asked)?.into() });
        }
        match (&answer.text, &answer.json) {
            (Some(text), _) => parts.push(Part::text(self.text(text, asked)?)),
            (None, Some(json)) => parts.push(Part::text(self.value(json, asked)?.to_string())),
            (None, None) => {}
        }
        let turn = asked.request.turn;
        for (index, call) in answer.calls.iter().enumerate() {
            let arguments = match (&call.raw_arguments, &call.arguments) {
                (Some(raw), _) => Arguments::parse(raw),
                (None, Some(value)) => Arguments::Json(Arc::new(self.value(value, asked)?.into_owned())),
                (None, None) => Arguments::parse(""),
            };
            let id = match &call.id {
                Some(id) => id.as_str().into(),
                None => format!("call_{turn}_{index}").into(),
            };
            parts.push(Part::Call(ToolCall { id, name: call.tool.as_str().into(), arguments }));
        }
        let fitting = if answer.calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
        Ok(ModelResponse {
            parts,
            finish: answer.finish.unwrap_or(fitting),
            usage: answer.usage.as_ref().map_or_else(Usage::default, |usage| usage.0),
            unknown_finish: None,
        })
    }

    fn text<'a>(&self, text: &'a str, asked: &Asked<'_>) -> Result<Cow<'a, str>, ModelError> {
        if !format::is_template(text) {
            return Ok(text.into());
        }
        let ModelRequest { worker, turn, .. } = asked.request;
        let names = context! { last => asked.last(), input => asked.input(), worker, turn };
        self.templates.render_str(text, names).map(Cow::Owned).map_err(|error| {
            let path = &self.script.path;
            ModelError::new(ModelErrorKind::BadRequest, format!("script:{path}: template {text:?}: {error}"))
        })
    }

    /// Renders the templates in the strings of a value.
    fn value<'a>(&self, value: &'a Value, asked: &Asked<'_>) -> Result<Cow<'a, Value>, ModelError> {
        Ok(match value {
            Value::String(text) => match self.text(text, asked)? {
                Cow::Borrowed(_) => Cow::Borrowed(value),
                Cow::Owned(text) => Cow::Owned(Value::String(text)),
            },
            Value::Array(items) => {
                let items = items.iter().map(|item| Ok(self.value(item, asked)?.into_owned()));
                Cow::Owned(Value::Array(items.collect::<Result<_, ModelError>>()?))
            }
            Value::Object(map) => {
                let map =
                    map.iter().map(|(key, value)| Ok((key.clone(), self.value(value, asked)?.into_owned())));
                Cow::Owned(Value::Object(map.collect::<Result<_, ModelError>>()?))
            }
            _ => Cow::Borrowed(value),
        })
    }
}

impl ScriptModel {
    /// Sends the deltas of a part as a provider would: a text, and the arguments of a call, in pieces. `calls` is the number
    /// of calls before it.
    async fn tell(&self, part: &Part, stream: &Stream, calls: &mut u32, deltas: &dyn DeltaSink) {
        let (text, delta): (Cow<'_, str>, fn(u32, String) -> Delta) = match part {
            Part::Text { text } => (Cow::Borrowed(text), |_, text| Delta::Text { text }),
            Part::Reasoning { text } => (Cow::Borrowed(text), |_, text| Delta::Reasoning { text }),
            Part::Call(call) => {
                deltas.delta(Delta::Call { name: call.name.to_string() });
                *calls += 1;
                (call.arguments.text(), |call, text| Delta::Arguments { call, text })
            }
            _ => return,
        };
        let number = calls.saturating_sub(1);
        let mut rest = &*text;
        while !rest.is_empty() {
            let end = rest.char_indices().nth(stream.chars).map_or(rest.len(), |(end, _)| end);
            if rest.len() != text.len() && !stream.pause.is_zero() {
                (self.sleep)(stream.pause).await;
            }
            deltas.delta(delta(number, rest[..end].to_owned()));
            rest = &rest[end..];
        }
    }
}

/// A request, with the parts that entries match.
struct Asked<'a> {
    request: ModelRequest<'a>,
    last: OnceCell<String>,
}

impl Asked<'_> {
    /// Returns the last text from the user or the tools.
    fn last(&self) -> &str {
        self.last.get_or_init(|| {
            let parts =
                self.request.messages.last().map(|message| message.parts.as_slice()).unwrap_or_default();
            let texts = parts.iter().filter_map(|part| match part {
                Part::Result(result) => Some(Cow::Borrowed(result.content.as_ref())),
                part => part.sent(),
            });
            texts.collect::<Vec<_>>().join("\n")
        })
    }

    /// Returns the first message of the conversation.
    fn input(&self) -> String {
        self.request.messages.first().map(|message| message.text()).unwrap_or_default()
    }

    fn fits(&self, entry: &Entry) -> bool {
        let when = &entry.when;
        when.purpose == self.request.purpose
            && when.turn.is_none_or(|turn| turn == self.request.turn)
            && when.worker.as_deref().is_none_or(|worker| worker == self.request.worker)
            && when.last.as_deref().is_none_or(|part| self.last().contains(part))
            && when.last_regex.as_ref().is_none_or(|regex| regex.0.is_match(self.last()))
    }
}

#[cfg(test)]
mod tests;
