//! The evaluated tokens of several conversations in one context. Conversations with the same beginning share its cells.

use crate::llama;
use llama_cpp_2::{
    DecodeError,
    context::{LlamaContext, params::LlamaContextParams},
    llama_batch::LlamaBatch,
    model::LlamaModel,
    token::LlamaToken,
};
use std::num::NonZeroU32;

/// A context and its contents.
pub(crate) struct Cells<'model> {
    model: &'model LlamaModel,
    /// The context. The first evaluation makes it. A context with more cells or another number of threads replaces it.
    context: Option<LlamaContext<'model>>,
    sequences: Vec<Sequence>,
    /// Most tokens that may be held, of all conversations.
    most: usize,
    /// True if a conversation can be cut anywhere and shared. The state of recurrent models can't.
    divisible: bool,
    /// Threads that the context uses.
    threads: usize,
    /// Counts the uses of sequences.
    clock: u64,
    /// Tokens evaluated so far.
    evaluated: u64,
}

/// A conversation, known to the library by its number.
#[derive(Default)]
struct Sequence {
    /// The tokens whose keys and values the context holds.
    tokens: Vec<LlamaToken>,
    /// True if an answer in progress uses the sequence.
    lent: bool,
    /// The time by the clock at which the sequence was lent last.
    used: u64,
}

/// The number of a sequence that was lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SequenceId(usize);

/// Tokens to evaluate, which follow those that the sequence holds.
pub(crate) struct Piece<'tokens> {
    /// The sequence.
    pub(crate) sequence: SequenceId,
    /// The tokens, at least one.
    pub(crate) tokens: &'tokens [LlamaToken],
    /// True if the logits after the last token are needed.
    pub(crate) logits: bool,
}

/// The reason for which pieces were not evaluated.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotEvaluated {
    /// The cells do not suffice, even without the resting conversations. The lent sequences have not changed.
    Full,
    /// The library failed. All contents are lost.
    Failed(String),
}

/// Most tokens that are evaluated at once.
pub(crate) const BATCH: usize = 128;
/// The initial number of cells. It doubles when they do not suffice, so that memory follows use.
const FIRST_CONTEXT: usize = 2048;
/// Most conversations that are kept.
const SEQUENCES: usize = 16;
/// Most conversations that are kept if each takes a state of its own, whatever its length.
const INDIVISIBLE_SEQUENCES: usize = 4;

impl<'model> Cells<'model> {
    /// Makes an empty context for that model, of at most `most` cells.
    pub(crate) fn new(model: &'model LlamaModel, most: usize) -> Self {
        let divisible = !(model.is_recurrent() || model.is_hybrid());
        let count = if divisible { SEQUENCES } else { INDIVISIBLE_SEQUENCES };
        let sequences = (0..count).map(|_| Sequence::default()).collect();
        Self { model, context: None, sequences, most, divisible, threads: 0, clock: 0, evaluated: 0 }
    }

    /// Returns the number of tokens evaluated so far.
    pub(crate) fn evaluated(&self) -> u64 {
        self.evaluated
    }

    /// Returns the number of tokens that the sequence holds.
    pub(crate) fn held(&self, sequence: SequenceId) -> usize {
        self.sequences[sequence.0].tokens.len()
    }

    /// Returns the length of the longest beginning of these tokens that any sequence holds.
    pub(crate) fn longest(&self, tokens: &[LlamaToken]) -> usize {
        self.sequences.iter().map(|sequence| common(&sequence.tokens, tokens)).max().unwrap_or(0)
    }

    /// Lends a sequence for a conversation with these tokens; `None` if all are lent. It holds as many of the first
    /// tokens as possible, but never the last, because the last token's logits are needed.
    ///
    /// A conversation that has only grown continues in its own sequence. Any other gets a resting sequence, whose
    /// contents are dropped, and shares the cells of the conversation with the longest common beginning.
    pub(crate) fn lend(&mut self, tokens: &[LlamaToken]) -> Option<SequenceId> {
        let begin = &tokens[..tokens.len().saturating_sub(1)];
        let shared = |sequence: &Sequence| common(&sequence.tokens, begin);
        let grown = |sequence: &Sequence| !sequence.lent && shared(sequence) == sequence.tokens.len();
        let numbered = || self.sequences.iter().enumerate();
        let (source, length) = numbered()
            .map(|(index, sequence)| (index, shared(sequence)))
            .max_by_key(|&(index, length)| (length, grown(&self.sequences[index])))?;
        let target = if length > 0 && grown(&self.sequences[source]) {
            source
        } else {
            let resting = numbered().filter(|(_, sequence)| !sequence.lent);
            // The source is the last to be taken: what it holds beyond the beginning would be lost.
            resting
                .min_by_key(|&(index, sequence)| {
                    (!sequence.tokens.is_empty() && index == source, sequence.used)
                })?
                .0
        };
        if target != source {
            self.clear(target);
            self.share(source, target, length);
        } else if length < self.sequences[target].tokens.len() {
            self.cut(target, length);
        }
        self.clock += 1;
        let sequence = &mut self.sequences[target];
        (sequence.lent, sequence.used) = (true, self.clock);
        Some(SequenceId(target))
    }

    /// Takes a sequence back. Its contents are kept until its cells are needed.
    pub(crate) fn take_back(&mut self, sequence: SequenceId) {
        self.sequences[sequence.0].lent = false;
    }

    /// Evaluates pieces of different sequences together, at most [`BATCH`] tokens in total. [`Cells::logits`] returns
    /// the logits.
    pub(crate) fn evaluate(&mut self, pieces: &[Piece<'_>], threads: usize) -> Result<(), NotEvaluated> {
        let failed = |reason: String| NotEvaluated::Failed(reason);
        if self.context.is_none() || self.threads != threads {
            self.renew(self.room().max(FIRST_CONTEXT).min(self.most), threads)?;
        }
        let count = pieces.iter().map(|piece| piece.tokens.len()).sum();
        let mut batch = LlamaBatch::new(count, 1);
        for piece in pieces {
            let held = self.held(piece.sequence);
            let number = i32::try_from(piece.sequence.0).map_err(|error| failed(error.to_string()))?;
            for (index, &token) in piece.tokens.iter().enumerate() {
                let wanted = piece.logits && index + 1 == piece.tokens.len();
                let position = i32::try_from(held + index).map_err(|error| failed(error.to_string()))?;
                batch.add(token, position, &[number], wanted).map_err(|error| failed(error.to_string()))?;
            }
        }
        loop {
            let Some(context) = &mut self.context else { return Err(failed("its context is gone".into())) };
            match context.decode(&mut batch) {
                Ok(()) => break,
                Err(DecodeError::NoKvCacheSlot) => self.make_room(threads)?,
                Err(error) => {
                    self.forget_all();
                    return Err(failed(llama::take_complaint().unwrap_or_else(|| error.to_string())));
                }
            }
        }
        // The complaint about missing cells.
        llama::take_complaint();
        for piece in pieces {
            self.sequences[piece.sequence.0].tokens.extend_from_slice(piece.tokens);
        }
        self.evaluated += count as u64;
        Ok(())
    }

    /// Returns the logits after one token of the last batch, by the token's place there. The token's logits must have
    /// been requested.
    pub(crate) fn logits(&self, place: usize) -> Option<&[f32]> {
        let context = self.context.as_ref()?;
        Some(context.get_logits_ith(i32::try_from(place).ok()?))
    }

    fn room(&self) -> usize {
        self.context.as_ref().map_or(0, |context| context.n_ctx() as usize)
    }

    /// Makes room: enlarges the context, or, at its largest size, drops the conversation that has rested longest.
    fn make_room(&mut self, threads: usize) -> Result<(), NotEvaluated> {
        let room = self.room();
        if room < self.most {
            return self.renew((2 * room).min(self.most), threads);
        }
        let resting = self.sequences.iter().enumerate().filter(|(_, it)| !it.lent && !it.tokens.is_empty());
        let oldest = resting.min_by_key(|(_, sequence)| sequence.used).map(|(index, _)| index);
        self.clear(oldest.ok_or(NotEvaluated::Full)?);
        Ok(())
    }

    /// Replaces the context, and keeps the contents of the old one.
    fn renew(&mut self, room: usize, threads: usize) -> Result<(), NotEvaluated> {
        let state = self.context.take().map(|context| {
            let mut state = vec![0; context.get_state_size()];
            // SAFETY: the buffer has the size that the context asks for.
            let length = unsafe { context.copy_state_data(state.as_mut_ptr()) };
            state.truncate(length);
            state
        });
        let count = |number: usize| i32::try_from(number).unwrap_or(1);
        let size = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let parameters = LlamaContextParams::default()
            .with_n_ctx(NonZeroU32::new(size(room)))
            .with_n_seq_max(size(self.sequences.len()))
            .with_kv_unified(true)
            .with_n_batch(size(BATCH))
            .with_n_ubatch(size(BATCH))
            .with_n_threads(count(threads))
            .with_n_threads_batch(count(threads))
            .with_no_perf(true);
        let made = self.model.new_context(llama::backend(), parameters);
        let mut context = made.map_err(|error| {
            self.sequences.iter_mut().for_each(|sequence| sequence.tokens.clear());
            let reason = llama::take_complaint().unwrap_or_else(|| error.to_string());
            NotEvaluated::Failed(format!("no context of {room} tokens could be made: {reason}"))
        })?;
        if let Some(state) = state {
            // SAFETY: the state is that of a context of the same model with the same sequences and no more cells.
            let read = unsafe { context.set_state_data(&state) };
            if read != state.len() {
                context.clear_kv_cache();
                self.sequences.iter_mut().for_each(|sequence| sequence.tokens.clear());
            }
        }
        (self.context, self.threads) = (Some(context), threads);
        Ok(())
    }

    /// Copies the first tokens of `source` to `target`, which is empty.
    fn share(&mut self, source: usize, target: usize, length: usize) {
        let Some(context) = self.context.as_mut().filter(|_| self.divisible && length > 0) else { return };
        let (Ok(from), Ok(to)) = (i32::try_from(source), i32::try_from(target)) else { return };
        if context.copy_kv_cache_seq(from, to, Some(0), u32::try_from(length).ok()).is_ok() {
            self.sequences[target].tokens = self.sequences[source].tokens[..length].to_vec();
        }
    }

    /// Drops the tokens of a sequence after the first `length`, or all of them where the model can't be cut.
    fn cut(&mut self, index: usize, length: usize) {
        let (Ok(number), Ok(from)) = (u32::try_from(index), u32::try_from(length)) else { return };
        let context = self.context.as_mut().filter(|_| self.divisible);
        let is_cut = context.is_some_and(|context| {
            context.clear_kv_cache_seq(Some(number), Some(from), None).unwrap_or(false)
        });
        if is_cut {
            self.sequences[index].tokens.truncate(length);
        } else {
            self.clear(index);
        }
    }

    /// Drops the tokens of a sequence, and the cells that no other sequence shares.
    fn clear(&mut self, index: usize) {
        if let (Some(context), Ok(number)) = (&mut self.context, u32::try_from(index)) {
            // The whole of a sequence can always be removed.
            let _ = context.clear_kv_cache_seq(Some(number), None, None);
        }
        self.sequences[index].tokens.clear();
    }

    /// Drops the tokens of a lent sequence, and takes the sequence back.
    pub(crate) fn forget(&mut self, sequence: SequenceId) {
        self.clear(sequence.0);
        self.take_back(sequence);
    }

    fn forget_all(&mut self) {
        if let Some(context) = &mut self.context {
            context.clear_kv_cache();
        }
        self.sequences.iter_mut().for_each(|sequence| sequence.tokens.clear());
    }
}

/// Returns the number of tokens that two conversations have in common at their beginning.
pub(crate) fn common(one: &[LlamaToken], other: &[LlamaToken]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}
