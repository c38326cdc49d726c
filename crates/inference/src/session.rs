//! A loaded model at work. It answers several requests at once, and evaluates a token of each in one batch. It runs on
//! a thread of its own.

use crate::{
    answer::{Answer, Step},
    cells::{BATCH, Cells, NotEvaluated, Piece, SequenceId, common},
    grammar::Grammars,
    host::Replies,
    pace::Pace,
    sampler::Sampler,
    template::Template,
    wire::{self, Ask, FromModel, Machine},
};
use llama_cpp_2::{model::LlamaModel, token::LlamaToken};
use llguidance::Matcher;
use llm_do_core::model::{ModelError, ModelErrorKind};
use std::{
    cmp::Reverse,
    collections::VecDeque,
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
};

/// A request with its number.
pub(crate) struct Job {
    /// The number of the request.
    pub(crate) id: u64,
    /// The request.
    pub(crate) ask: Ask,
    /// True if the answer is no longer needed. The request is given up at the next token.
    pub(crate) cancelled: Arc<AtomicBool>,
}

/// A model that answers.
pub(crate) struct Session<'model> {
    model: &'model LlamaModel,
    template: Template,
    /// The grammars, read from the vocabulary when first needed; inner `None` if it can't be read.
    grammars: Option<Option<Grammars>>,
    cells: Cells<'model>,
    /// Maximum tokens of prompt and answer together.
    window: usize,
    pace: Pace,
    replies: &'model Replies,
    /// Requests with a sequence, the oldest first.
    active: Vec<(SequenceId, Work<'model>)>,
    /// Requests that wait for a sequence, in order.
    waiting: VecDeque<Work<'model>>,
    /// True if the active requests did not fit together. Until one of them ends, no other joins them.
    crowded: bool,
}

/// A request and its answer so far.
struct Work<'model> {
    job: Job,
    answer: Answer<'model>,
    sampler: Sampler,
    matcher: Option<Matcher>,
    /// The tokens of the prompt and of the answer.
    tokens: Vec<LlamaToken>,
    /// The number of tokens in the prompt.
    prompt: usize,
    /// Maximum tokens of the answer.
    limit: usize,
    /// The number of the prompt's tokens that had been evaluated before the request.
    cached: Option<usize>,
}

/// The reason for the end of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The model, a stop text or the grammar ended it.
    Finished,
    /// The answer has reached its limit.
    CutOff,
}

/// Default maximum tokens of an answer. It ends a small model that rambles.
pub(crate) const MAX_TOKENS: u32 = 512;
/// Maximum tokens of a conversation, regardless of the model's training.
pub(crate) const MOST_CONTEXT: u64 = 32_768;
/// Minimum tokens of a conversation, regardless of memory.
const LEAST_CONTEXT: u64 = 2048;
/// A request waits for another that is evaluating at least this many tokens of its own prompt.
const WORTH_WAITING: usize = 32;

impl<'model> Session<'model> {
    /// Makes a session with that model.
    pub(crate) fn new(model: &'model LlamaModel, machine: Machine, replies: &'model Replies) -> Self {
        let affordable = affordable(model, machine.memory);
        let most = affordable.clamp(LEAST_CONTEXT, MOST_CONTEXT).min(u64::from(model.n_ctx_train()));
        // One conversation can fill its window, and others rest beside it.
        let cells = affordable.clamp(most, 2 * most);
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Self {
            model,
            template: Template::of(model),
            grammars: None,
            cells: Cells::new(model, count(cells)),
            window: count(most),
            pace: Pace::new(machine.cores),
            replies,
            active: Vec::new(),
            waiting: VecDeque::new(),
            crowded: false,
        }
    }

    /// Answers requests until the sender is gone.
    pub(crate) fn run(&mut self, inbox: &mpsc::Receiver<Job>) {
        loop {
            if self.active.is_empty() && self.waiting.is_empty() {
                let Ok(job) = inbox.recv() else { return };
                self.pace.begin();
                self.accept(job);
            }
            while let Ok(job) = inbox.try_recv() {
                self.accept(job);
            }
            self.give_up_cancelled();
            self.admit();
            self.step();
            self.replies.keep_alive();
        }
    }

    fn accept(&mut self, job: Job) {
        match self.prepare(&job) {
            Ok((tokens, limit, matcher)) => self.waiting.push_back(Work {
                answer: Answer::new(job.id, &job.ask, self.replies),
                sampler: Sampler::new(&job.ask.settings, self.model),
                matcher,
                prompt: tokens.len(),
                tokens,
                limit,
                cached: None,
                job,
            }),
            Err(error) => self.done(job.id, Err(error)),
        }
    }

    /// Returns the prompt, the number of tokens that may follow, and the grammar of the answer.
    fn prepare(&mut self, job: &Job) -> Result<(Vec<LlamaToken>, usize, Option<Matcher>), ModelError> {
        let prompt = self.template.prompt(self.model, &job.ask.turns)?;
        if prompt.len() >= self.window {
            return Err(ModelError::new(
                ModelErrorKind::ContextExceeded,
                format!("context exceeded: {} tokens, window {}", prompt.len(), self.window),
            ));
        }
        if prompt.is_empty() {
            return Err(failed("the chat template in the model's file makes an empty prompt".into()));
        }
        let limit = job.ask.settings.max_tokens.unwrap_or(MAX_TOKENS) as usize;
        let limit = limit.min(self.window - prompt.len());
        let matcher = job
            .ask
            .output
            .as_ref()
            .and_then(|schema| grammars(&mut self.grammars, self.model)?.answer(schema, &job.ask.tools));
        Ok((prompt, limit, matcher))
    }

    fn give_up_cancelled(&mut self) {
        let mut gone = Vec::new();
        for (sequence, work) in self.active.extract_if(.., |(_, work)| work.is_cancelled()) {
            self.cells.take_back(sequence);
            self.crowded = false;
            gone.push(work);
        }
        let (cancelled, waiting): (VecDeque<_>, _) =
            mem::take(&mut self.waiting).into_iter().partition(Work::is_cancelled);
        self.waiting = waiting;
        gone.extend(cancelled);
        for work in gone {
            self.done(work.job.id, Err(failed("cancelled".into())));
        }
    }

    /// Gives sequences to waiting requests. A request with the same beginning as a prompt that is still being evaluated
    /// waits for that prompt: no token is evaluated twice.
    fn admit(&mut self) {
        if self.crowded {
            return;
        }
        for mut work in mem::take(&mut self.waiting) {
            let coming = self.active.iter().map(|(_, other)| common(&other.tokens, &work.tokens)).max();
            let here = self.cells.longest(&work.tokens);
            let waits = coming.is_some_and(|coming| coming >= here + WORTH_WAITING);
            match if waits { None } else { self.cells.lend(&work.tokens) } {
                Some(sequence) => {
                    work.cached.get_or_insert(self.cells.held(sequence));
                    self.active.push((sequence, work));
                }
                None => self.waiting.push_back(work),
            }
        }
    }

    /// Evaluates one batch: the newest token of each answer, then as much of the prompts as fits.
    fn step(&mut self) {
        if self.active.is_empty() {
            return;
        }
        let left = |(sequence, work): &(SequenceId, Work<'_>)| work.tokens.len() - self.cells.held(*sequence);
        let (answers, prompts): (Vec<usize>, Vec<usize>) =
            (0..self.active.len()).partition(|&index| left(&self.active[index]) == 1);
        let mut pieces = Vec::new();
        let mut places = Vec::new();
        let mut count = 0;
        for index in answers.into_iter().chain(prompts) {
            let (sequence, work) = &self.active[index];
            let tokens = &work.tokens[self.cells.held(*sequence)..];
            let now = &tokens[..tokens.len().min(BATCH - count)];
            if now.is_empty() {
                break;
            }
            count += now.len();
            let logits = now.len() == tokens.len();
            if logits {
                places.push((index, count - 1));
            }
            pieces.push(Piece { sequence: *sequence, tokens: now, logits });
        }
        let threads = self.pace.threads();
        match self.cells.evaluate(&pieces, threads) {
            Ok(()) => self.continue_answers(&places),
            Err(NotEvaluated::Full) => self.postpone_youngest(),
            Err(NotEvaluated::Failed(reason)) => {
                self.crowded = false;
                for (sequence, work) in mem::take(&mut self.active) {
                    self.cells.take_back(sequence);
                    self.done(work.job.id, Err(failed(reason.clone())));
                }
            }
        }
    }

    /// Adds a token to each answer whose logits are in the batch. `places` has pairs of an answer and a place in the
    /// batch.
    fn continue_answers(&mut self, places: &[(usize, usize)]) {
        let mut ended = Vec::new();
        for &(index, place) in places {
            let (_, work) = &mut self.active[index];
            let outcome = match self.cells.logits(place) {
                Some(logits) => work.next(logits, self.model, &mut self.grammars),
                None => Err(failed("its context is gone".into())),
            };
            match outcome {
                Ok(None) => {}
                Ok(Some(end)) => ended.push((index, Ok(end))),
                Err(error) => ended.push((index, Err(error))),
            }
        }
        // The last first, so that the others keep their places.
        ended.sort_by_key(|(index, _)| Reverse(*index));
        for (index, outcome) in ended {
            let (sequence, work) = self.active.remove(index);
            self.cells.take_back(sequence);
            self.crowded = false;
            let id = work.job.id;
            let outcome = outcome.map(|end| work.finish(end));
            self.done(id, outcome);
        }
    }

    /// Gives up the youngest request's sequence if the answers in progress don't fit together. The request waits.
    fn postpone_youngest(&mut self) {
        let Some((sequence, work)) = self.active.pop() else { return };
        self.cells.forget(sequence);
        if self.active.is_empty() {
            self.done(work.job.id, Err(failed("its memory holds no conversation of this length".into())));
        } else {
            self.crowded = true;
            self.waiting.push_front(work);
        }
    }

    fn done(&self, id: u64, outcome: Result<wire::Answer, ModelError>) {
        self.replies.send(&FromModel::Done { id, outcome, evaluated: self.cells.evaluated() });
    }
}

impl Work<'_> {
    fn is_cancelled(&self) -> bool {
        self.job.cancelled.load(Ordering::Relaxed)
    }

    /// Adds the next token. Returns the reason why the answer ends, if it does.
    fn next(
        &mut self,
        logits: &[f32],
        model: &LlamaModel,
        known: &mut Option<Option<Grammars>>,
    ) -> Result<Option<End>, ModelError> {
        if self.made() >= self.limit {
            return Ok(Some(End::CutOff));
        }
        let token = self.sampler.next(logits, self.matcher.as_mut()).map_err(grammar_failed)?;
        if model.vocab().is_eog(token) {
            return Ok(Some(End::Finished));
        }
        self.tokens.push(token);
        if let Some(matcher) = &mut self.matcher {
            let consumed = matcher.consume_token(token.0.cast_unsigned());
            consumed.map_err(|error| grammar_failed(error.to_string()))?;
        }
        let bytes = model.vocab().token_to_piece(token, false, None);
        match self.answer.push(&bytes) {
            Step::Text => {}
            Step::Stopped => return Ok(Some(End::Finished)),
            Step::CallOpened { after } if self.matcher.is_none() => {
                self.matcher = grammars(known, model).and_then(|all| all.call(&self.job.ask.tools));
                if !after.is_empty() {
                    // The token reached past the tag; what follows must come from the grammar alone.
                    self.tokens.pop();
                    let head = &bytes[..bytes.len() - after.len()];
                    self.tokens.extend(model.vocab().tokenize(head, false, false));
                    self.answer.restart_call();
                }
            }
            Step::CallOpened { .. } | Step::Call => {}
        }
        if self.matcher.as_ref().is_some_and(Matcher::is_stopped) {
            return Ok(Some(End::Finished));
        }
        Ok((self.made() >= self.limit).then_some(End::CutOff))
    }

    fn made(&self) -> usize {
        self.tokens.len() - self.prompt
    }

    fn finish(self, end: End) -> wire::Answer {
        let made = self.made();
        let (text, call) = self.answer.finish();
        wire::Answer {
            text,
            call,
            cut_off: end == End::CutOff,
            input_tokens: self.prompt as u64,
            cached_tokens: self.cached.unwrap_or(0) as u64,
            output_tokens: made as u64,
        }
    }
}

/// Returns the grammars of that model, which are read from its vocabulary the first time.
fn grammars<'known>(
    known: &'known mut Option<Option<Grammars>>,
    model: &LlamaModel,
) -> Option<&'known Grammars> {
    known.get_or_insert_with(|| Grammars::new(model)).as_ref()
}

/// Returns the number of tokens of that model that fit in so much memory.
fn affordable(model: &LlamaModel, memory: u64) -> u64 {
    let head_size = u64::from(model.n_embd().unsigned_abs()) / u64::from(model.n_head().max(1));
    let per_token = 2 * 2 * u64::from(model.n_layer()) * u64::from(model.n_head_kv().max(1)) * head_size;
    memory / per_token.max(1)
}

fn grammar_failed(reason: String) -> ModelError {
    failed(format!("the answer could not be kept to its schema: {reason}"))
}

/// Makes an error that is not retried.
fn failed(message: String) -> ModelError {
    ModelError::new(ModelErrorKind::BadRequest, format!("local model: {message}"))
}
