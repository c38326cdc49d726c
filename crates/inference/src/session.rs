//! One loaded model with its context: prompts in, tokens out. Lives on a thread of its own.

use crate::{
    flow::Flow,
    grammar::{CALL_CLOSE, CALL_OPEN, Grammars},
    host::Replies,
    llama,
    pace::Pace,
    sampler::Sampler,
    template::Template,
    wire::{self, Ask, FromModel, Machine, WrittenCall},
};
use llama_cpp_2::{
    LlamaStateSeqFlags,
    context::{LlamaContext, params::LlamaContextParams},
    llama_batch::LlamaBatch,
    model::LlamaModel,
    token::LlamaToken,
};
use llguidance::Matcher;
use llm_do_core::model::{Arguments, FinishReason, ModelError, ModelErrorKind};
use serde_json::Value;
use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// One request.
pub(crate) struct Job {
    /// Its number.
    pub(crate) id: u64,
    /// What is asked.
    pub(crate) ask: Ask,
    /// Whether the answer is no longer wanted. It is given up at the next token.
    pub(crate) cancelled: Arc<AtomicBool>,
}

impl Job {
    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

/// A model that answers.
pub(crate) struct Session<'model> {
    model: &'model LlamaModel,
    template: Template,
    /// Read from the vocabulary when first needed; inner `None` if it can't be.
    grammars: Option<Option<Grammars>>,
    context: Option<LlamaContext<'model>>,
    /// The tokens whose keys and values the context holds: a conversation that grows reuses them.
    held: Vec<LlamaToken>,
    /// Maximum tokens of prompt and answer together.
    window: usize,
    pace: Pace,
    /// Threads that the context uses.
    threads: usize,
    /// Tokens evaluated in all.
    evaluated: u64,
    replies: &'model Replies,
}

/// Default maximum tokens of an answer, so that a rambling small model ends.
const MAX_TOKENS: u32 = 512;
/// Tokens evaluated at once. Cancelling takes effect between two of these.
const BATCH: usize = 128;
/// The context starts with room for this many tokens and doubles when that is too small: memory follows use.
const FIRST_CONTEXT: usize = 2048;
/// Maximum tokens of a context, regardless of the model's training.
const MOST_CONTEXT: u64 = 32_768;

impl<'model> Session<'model> {
    /// A session with that model; its context is made by the first job.
    pub(crate) fn new(model: &'model LlamaModel, machine: Machine, replies: &'model Replies) -> Self {
        Self {
            model,
            template: Template::of(model),
            grammars: None,
            context: None,
            held: Vec::new(),
            window: window(model, machine.memory),
            pace: Pace::new(machine.cores),
            threads: 0,
            evaluated: 0,
            replies,
        }
    }

    /// Answers one job.
    pub(crate) fn answer(&mut self, job: &Job) {
        let outcome = self.answer_to(job);
        self.replies.send(&FromModel::Done { id: job.id, outcome, evaluated: self.evaluated });
    }

    fn answer_to(&mut self, job: &Job) -> Result<wire::Answer, ModelError> {
        let prompt = self.template.prompt(self.model, &job.ask.turns)?;
        if prompt.len() >= self.window {
            return Err(ModelError::new(
                ModelErrorKind::ContextExceeded,
                format!("context exceeded: {} tokens, window {}", prompt.len(), self.window),
            ));
        }
        let limit = job.ask.settings.max_tokens.unwrap_or(MAX_TOKENS) as usize;
        let limit = limit.min(self.window - prompt.len());
        self.pace.begin();
        let threads = self.pace.threads();
        self.reserve(prompt.len() + limit, threads)?;
        let cached = self.evaluate(&prompt, job)?;

        let mut sampler = Sampler::new(&job.ask.settings);
        let mut matcher = match &job.ask.output {
            Some(schema) => self.grammars().and_then(|grammars| grammars.answer(schema, &job.ask.tools)),
            None => None,
        };
        let mut answer = Answer::new(job, self.replies);
        let mut made: Vec<LlamaToken> = Vec::new();
        let finish = loop {
            if made.len() >= limit {
                break FinishReason::Length;
            }
            let token = sampler.next(self.logits()?, matcher.as_mut()).map_err(grammar_failed)?;
            if self.model.vocab().is_eog(token) {
                break FinishReason::Stop;
            }
            made.push(token);
            if let Some(matcher) = &mut matcher {
                matcher
                    .consume_token(token.0.cast_unsigned())
                    .map_err(|error| grammar_failed(error.to_string()))?;
            }
            let bytes = self.model.vocab().token_to_piece(token, false, None);
            match answer.push(&bytes) {
                Step::Text => {}
                Step::Stopped => break FinishReason::Stop,
                Step::CallOpened { after } if matcher.is_none() => {
                    matcher = self.grammars().and_then(|grammars| grammars.call(&job.ask.tools));
                    if !after.is_empty() {
                        // The token reached past the tag; what follows must come from the grammar alone.
                        made.pop();
                        let head = &bytes[..bytes.len() - after.len()];
                        made.extend(self.model.vocab().tokenize(head, false, false));
                        answer.call = Some(Vec::new());
                    }
                }
                Step::CallOpened { .. } | Step::Call => {}
            }
            if matcher.as_ref().is_some_and(Matcher::is_stopped) {
                break FinishReason::Stop;
            }
            let so_far: Vec<LlamaToken> = prompt.iter().chain(&made).copied().collect();
            self.evaluate(&so_far, job)?;
        };
        let (text, call, finish) = answer.finish(finish);
        Ok(wire::Answer {
            text,
            call,
            finish,
            input_tokens: prompt.len() as u64,
            cached_tokens: cached as u64,
            output_tokens: made.len() as u64,
        })
    }

    /// Has a context with room for that many tokens and with so many threads; what the old one held is moved over.
    fn reserve(&mut self, tokens: usize, threads: usize) -> Result<(), ModelError> {
        let room = self.context.as_ref().map_or(0, |context| context.n_ctx() as usize);
        if room >= tokens && threads == self.threads {
            return Ok(());
        }
        let flags = LlamaStateSeqFlags::empty();
        let state = self.context.take().and_then(|context| context.state_seq_get(0, flags).ok());
        let room = tokens.next_power_of_two().max(FIRST_CONTEXT).max(room).min(self.window);
        let count = |number: usize| i32::try_from(number).unwrap_or(1);
        let batch = u32::try_from(BATCH).expect("it is small");
        let params = LlamaContextParams::default()
            .with_n_ctx(u32::try_from(room).ok().and_then(NonZeroU32::new))
            .with_n_batch(batch)
            .with_n_ubatch(batch)
            .with_n_threads(count(threads))
            .with_n_threads_batch(count(threads))
            .with_no_perf(true);
        let mut context = self.model.new_context(llama::backend(), params).map_err(|error| {
            let reason = llama::take_complaint().unwrap_or_else(|| error.to_string());
            failed(format!("no context of {room} tokens could be made: {reason}"))
        })?;
        if state.is_none_or(|state| context.state_seq_set(&state, 0).is_err()) {
            context.clear_kv_cache();
            self.held.clear();
        }
        (self.context, self.threads) = (Some(context), threads);
        Ok(())
    }

    /// Brings the context to exactly these tokens, with the logits after the last of them. Says how many it held
    /// already.
    fn evaluate(&mut self, tokens: &[LlamaToken], job: &Job) -> Result<usize, ModelError> {
        let same = self.held.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        // The last one is always evaluated, for its logits.
        let keep = self.forget_after(same.min(tokens.len().saturating_sub(1)))?;
        let mut batch = LlamaBatch::new(BATCH.min(tokens.len() - keep).max(1), 1);
        while self.held.len() < tokens.len() {
            self.replies.keep_alive();
            if job.is_cancelled() {
                return Err(failed("cancelled".into()));
            }
            let threads = self.pace.threads();
            self.reserve(tokens.len(), threads)?;
            let context = self.context.as_mut().ok_or_else(no_context)?;
            batch.clear();
            for &token in tokens[self.held.len()..].iter().take(BATCH) {
                let position = self.held.len();
                let last = position + 1 == tokens.len();
                let position = i32::try_from(position).map_err(|error| failed(error.to_string()))?;
                batch.add(token, position, &[0], last).map_err(|error| failed(error.to_string()))?;
                self.held.push(token);
            }
            if let Err(error) = context.decode(&mut batch) {
                context.clear_kv_cache();
                self.held.clear();
                return Err(failed(llama::take_complaint().unwrap_or_else(|| error.to_string())));
            }
            self.evaluated += u64::try_from(batch.n_tokens()).unwrap_or(0);
        }
        Ok(keep)
    }

    /// Drops what the context holds after so many tokens, or everything where the model can't. Says what is left.
    fn forget_after(&mut self, keep: usize) -> Result<usize, ModelError> {
        if keep < self.held.len() {
            let context = self.context.as_mut().ok_or_else(no_context)?;
            self.held.truncate(keep);
            if !context.clear_kv_cache_seq(Some(0), u32::try_from(keep).ok(), None).unwrap_or(false) {
                context.clear_kv_cache();
                self.held.clear();
            }
        }
        Ok(self.held.len())
    }

    fn logits(&self) -> Result<&[f32], ModelError> {
        Ok(self.context.as_ref().ok_or_else(no_context)?.get_logits_ith(-1))
    }

    fn grammars(&mut self) -> Option<&Grammars> {
        let model = self.model;
        self.grammars.get_or_insert_with(|| Grammars::new(model)).as_ref()
    }
}

/// An answer as it comes.
struct Answer<'job> {
    job: &'job Job,
    replies: &'job Replies,
    flow: Flow,
    text: String,
    /// The text after the opening tag of a call.
    call: Option<Vec<u8>>,
    /// The called tool, once its name is complete.
    name: Option<String>,
}

/// The effect of a token.
enum Step {
    /// More text.
    Text,
    /// A stop text was met.
    Stopped,
    /// The opening tag of a call is complete; these bytes came after it.
    CallOpened { after: Vec<u8> },
    /// More of a call.
    Call,
}

impl<'job> Answer<'job> {
    fn new(job: &'job Job, replies: &'job Replies) -> Self {
        // The first marker is the call's; it is never met where no tools are offered.
        let mut markers = vec![if job.ask.tools.is_empty() { String::new() } else { CALL_OPEN.to_owned() }];
        if job.ask.output.is_none() {
            markers.extend(job.ask.settings.stop.iter().cloned());
        }
        Self { job, replies, flow: Flow::new(markers), text: String::new(), call: None, name: None }
    }

    fn push(&mut self, bytes: &[u8]) -> Step {
        if let Some(call) = &mut self.call {
            call.extend_from_slice(bytes);
            self.announce();
            return Step::Call;
        }
        let released = self.flow.push(bytes);
        self.say(released.text);
        match released.hit {
            None => Step::Text,
            Some((0, after)) => {
                self.call = Some(after.clone());
                Step::CallOpened { after }
            }
            Some(_) => Step::Stopped,
        }
    }

    fn say(&mut self, text: String) {
        if !text.is_empty() {
            self.text.push_str(&text);
            self.replies.send(&FromModel::Text { id: self.job.id, text });
        }
    }

    fn announce(&mut self) {
        if self.name.is_none() {
            let call = self.call.as_deref().unwrap_or_default();
            self.name =
                String::from_utf8_lossy(call).split_once(", \"arguments\": ").and_then(|(head, _)| {
                    let head: Value = serde_json::from_str(&format!("{head}}}")).ok()?;
                    Some(head["name"].as_str()?.to_owned())
                });
            if let Some(name) = self.name.clone() {
                self.replies.send(&FromModel::Call { id: self.job.id, name });
            }
        }
    }

    fn finish(mut self, mut finish: FinishReason) -> (String, Option<WrittenCall>, FinishReason) {
        let rest = self.flow.finish();
        self.say(rest);
        let Some(call) = self.call else { return (self.text, None, finish) };
        let text = String::from_utf8_lossy(&call).into_owned();
        let body = text.trim().strip_suffix(CALL_CLOSE).unwrap_or(&text);
        let (name, arguments) = match serde_json::from_str::<Value>(body) {
            Ok(mut value) => (
                value["name"].as_str().unwrap_or_default().to_owned(),
                Arguments::Json(Arc::new(value["arguments"].take())),
            ),
            Err(error) => (
                self.name.unwrap_or_default(),
                Arguments::Invalid { text: body.into(), reason: error.to_string().into() },
            ),
        };
        if finish == FinishReason::Stop {
            finish = FinishReason::ToolCalls;
        }
        (self.text, Some(WrittenCall { name, arguments }), finish)
    }
}

/// How many tokens a conversation with that model may have: what it was trained for, but no more than what fits in the
/// memory.
fn window(model: &LlamaModel, memory: u64) -> usize {
    let head_size = u64::from(model.n_embd().unsigned_abs()) / u64::from(model.n_head().max(1));
    let per_token = 2 * 2 * u64::from(model.n_layer()) * u64::from(model.n_head_kv().max(1)) * head_size;
    let affordable = memory / per_token.max(1);
    let most = affordable.clamp(FIRST_CONTEXT as u64, MOST_CONTEXT).min(u64::from(model.n_ctx_train()));
    usize::try_from(most).unwrap_or(FIRST_CONTEXT)
}

fn no_context() -> ModelError {
    failed("its context is gone".into())
}

fn grammar_failed(reason: String) -> ModelError {
    failed(format!("the answer could not be kept to its schema: {reason}"))
}

/// A failure that asking again does not mend.
fn failed(message: String) -> ModelError {
    ModelError::new(ModelErrorKind::BadRequest, format!("local model: {message}"))
}
