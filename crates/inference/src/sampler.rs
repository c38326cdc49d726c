//! Choosing the next token.

use llama_cpp_2::{
    model::LlamaModel,
    sampling::LlamaSampler,
    token::{LlamaToken, data::LlamaTokenData, data_array::LlamaTokenDataArray},
};
use llguidance::{Matcher, toktrie::SimpleVob};
use llm_do_core::model::ModelSettings;

/// Chooses tokens by the settings of one answer. The same settings, seed and logits give the same tokens.
pub(crate) struct Sampler {
    /// The chain of samplers. `None` takes the likeliest token.
    chain: Option<LlamaSampler>,
    /// Makes tokens unlikely that would repeat a part of the answer. A grammar may demand such repetition, so it
    /// applies to free text only.
    dry: LlamaSampler,
    candidates: LlamaTokenDataArray,
}

/// The default temperature. Low, because small models drift off topic.
const TEMPERATURE: f64 = 0.2;
const TOP_P: f64 = 0.9;
/// The seed. It is fixed, so that the same question gets the same answer.
const SEED: u64 = 0;
/// Number of the likeliest tokens that are considered.
const TOP_K: i32 = 40;

/// The penalty for repetition (llama.cpp's DRY). A token that continues a sequence of at least [`DRY_FREE`] tokens in
/// the same way as earlier in the answer loses `DRY_WEIGHT * DRY_BASE ^ (length - DRY_FREE)` of its logit. Small models
/// loop without it.
const DRY_WEIGHT: f32 = 0.8;
const DRY_BASE: f32 = 1.75;
/// Longest sequences that may be repeated: a name, a phrase, an item of a list.
const DRY_FREE: i32 = 8;
/// Range of the penalty: the whole answer.
const DRY_RANGE: i32 = -1;
/// Texts after which a sequence begins again.
const DRY_BREAKERS: [&str; 3] = ["|", "`", "\""];

impl Sampler {
    pub(crate) fn new(settings: &ModelSettings, model: &LlamaModel) -> Self {
        let temperature = settings.temperature.unwrap_or(TEMPERATURE);
        let seed = settings.seed.unwrap_or(SEED);
        // The library takes 32 bits; the upper half must still make a difference.
        #[allow(clippy::cast_possible_truncation)]
        let (seed, heat, mass) =
            ((seed ^ (seed >> 32)) as u32, temperature as f32, settings.top_p.unwrap_or(TOP_P) as f32);
        let chain = (temperature > 0.0).then(|| {
            LlamaSampler::chain_simple([
                LlamaSampler::top_k(TOP_K),
                LlamaSampler::top_p(mass, 1),
                LlamaSampler::temp(heat),
                LlamaSampler::dist(seed),
            ])
        });
        let dry = LlamaSampler::dry(model, DRY_WEIGHT, DRY_BASE, DRY_FREE, DRY_RANGE, DRY_BREAKERS);
        Self { chain, dry, candidates: LlamaTokenDataArray::new(Vec::new(), false) }
    }

    /// Chooses the next token by these logits, among those that the grammar allows.
    ///
    /// # Errors
    /// The grammar failed.
    pub(crate) fn next(
        &mut self,
        logits: &[f32],
        matcher: Option<&mut Matcher>,
    ) -> Result<LlamaToken, String> {
        let is_free = matcher.is_none();
        let mask = match matcher {
            Some(matcher) => Some(matcher.compute_mask_or_eos().map_err(|error| error.to_string())?),
            None => None,
        };
        self.fill(logits, mask.as_ref());
        if is_free {
            self.candidates.apply_sampler(&mut self.dry);
        }
        let token = self.choose()?;
        self.dry.accept(token);
        Ok(token)
    }

    fn choose(&mut self) -> Result<LlamaToken, String> {
        let likeliest = self.candidates.data.iter().max_by(|a, b| a.logit().total_cmp(&b.logit()));
        let likeliest = likeliest.map(LlamaTokenData::id).ok_or("no token is allowed")?;
        let Some(chain) = &mut self.chain else { return Ok(likeliest) };
        self.candidates.apply_sampler(chain);
        Ok(self.candidates.selected_token().unwrap_or(likeliest))
    }

    fn fill(&mut self, logits: &[f32], mask: Option<&SimpleVob>) {
        let data = &mut self.candidates.data;
        data.clear();
        let candidate = |(id, logit): (i32, &f32)| LlamaTokenData::new(LlamaToken::new(id), *logit, 0.0);
        match mask {
            None => data.extend((0..).zip(logits).map(candidate)),
            Some(mask) => {
                let allowed = |(id, _): &(i32, &f32)| mask.is_allowed(id.cast_unsigned());
                data.extend((0..).zip(logits).filter(allowed).map(candidate));
            }
        }
        self.candidates.sorted = false;
        self.candidates.selected = None;
    }
}
