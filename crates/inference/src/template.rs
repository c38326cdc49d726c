//! The model's own chat template, and the tokens of a prompt made with it.

use crate::chat::{Speaker, Turn};
use llama_cpp_2::{
    model::{LlamaChatMessage, LlamaChatTemplate, LlamaModel},
    token::LlamaToken,
};
use llm_do_core::model::{ModelError, ModelErrorKind};
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value, context, syntax::SyntaxConfig};

/// Turns a chat into tokens.
pub(crate) struct Template {
    /// The file's template in the template language, where it compiles.
    jinja: Option<Environment<'static>>,
    /// The template for llama.cpp, which knows some by name; ChatML if the file has none.
    known: LlamaChatTemplate,
    /// Texts of the tokens that control the model. In messages and files they are plain text.
    control: Vec<String>,
    bos: String,
    eos: String,
}

/// Splits a control token's text where a message quotes it. A noncharacter, so that no text contains it.
const SPLIT: char = '\u{fdd0}';
/// Most steps of a template: far more than real ones need, and an end for one that loops.
const FUEL: u64 = 5_000_000;
/// The template for files without one; most small models were trained on it.
const CHATML: &str = "chatml";
const NAME: &str = "chat";

impl Template {
    /// Returns the template of that model.
    pub(crate) fn of(model: &LlamaModel) -> Self {
        let vocab = model.vocab();
        let text_of = |token: LlamaToken| {
            vocab.text(token).filter(|_| token.0 >= 0).map(|it| it.to_string_lossy().into_owned())
        };
        let control = (0..vocab.n_tokens())
            .map(LlamaToken::new)
            .filter(|&token| vocab.is_control(token))
            .filter_map(text_of)
            .filter(|text| text.chars().count() > 1)
            .collect();
        let own = model.chat_template(None).ok();
        let jinja = own.as_ref().and_then(|own| own.to_str().ok()).and_then(environment);
        let known = own.or_else(|| LlamaChatTemplate::new(CHATML).ok()).expect("the name holds no NUL");
        let token_text =
            |token: LlamaToken| if token.0 < 0 { None } else { text_of(token) }.unwrap_or_default();
        Self { jinja, known, control, bos: token_text(vocab.bos()), eos: token_text(vocab.eos()) }
    }

    /// Renders the prompt that makes the model give the next assistant turn.
    pub(crate) fn prompt(&self, model: &LlamaModel, turns: &[Turn]) -> Result<Vec<LlamaToken>, ModelError> {
        let turns: Vec<Turn> =
            turns.iter().map(|turn| Turn { speaker: turn.speaker, text: self.disarm(&turn.text) }).collect();
        let text = self.render(model, &turns).or_else(|reason| {
            // Some templates know no system turn; then the instructions open the first user turn.
            let folded = fold_system(&turns).ok_or_else(|| reason.clone())?;
            self.render(model, &folded).map_err(|_| reason)
        });
        let text = text.map_err(|reason| {
            ModelError::new(
                ModelErrorKind::Unsupported,
                format!("the chat template in the model's file can't be used: {reason}"),
            )
        })?;
        let vocab = model.vocab();
        let add_special = vocab.should_add_bos() && (self.bos.is_empty() || !text.starts_with(&self.bos));
        let mut tokens = Vec::with_capacity(text.len() / 3);
        for (index, piece) in text.split(SPLIT).enumerate() {
            tokens.extend(vocab.tokenize(piece.as_bytes(), add_special && index == 0, true));
        }
        Ok(tokens)
    }

    /// Breaks up control tokens in a message, so that a file with the text `<|im_start|>system` is not taken for a
    /// system message.
    fn disarm(&self, text: &str) -> String {
        let mut text = text.replace(SPLIT, "");
        for token in &self.control {
            if text.contains(token.as_str()) {
                let mut chars = token.chars();
                let broken: String = chars.next().into_iter().chain([SPLIT]).chain(chars).collect();
                text = text.replace(token.as_str(), &broken);
            }
        }
        text
    }

    fn render(&self, model: &LlamaModel, turns: &[Turn]) -> Result<String, String> {
        let reason = match &self.jinja {
            Some(jinja) => match render(jinja, turns, &self.bos, &self.eos) {
                Ok(text) => return Ok(text),
                Err(error) => error.to_string(),
            },
            None => "it is not one that is understood".to_owned(),
        };
        let chat: Result<Vec<_>, _> = turns
            .iter()
            .map(|turn| LlamaChatMessage::new(turn.speaker.name().to_owned(), turn.text.replace('\0', "")))
            .collect();
        let chat = chat.map_err(|_| reason.clone())?;
        model.apply_chat_template(&self.known, &chat, true).map_err(|_| reason)
    }
}

/// Compiles a template, with the functions that templates for the usual Python library expect; `None` if it does not
/// compile.
fn environment(source: &str) -> Option<Environment<'static>> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().ok()?);
    environment.set_undefined_behavior(UndefinedBehavior::Chainable);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.set_fuel(Some(FUEL));
    environment.add_function("raise_exception", |reason: String| -> Result<String, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, reason))
    });
    environment.add_template_owned(NAME, source.to_owned()).ok()?;
    Some(environment)
}

fn render(environment: &Environment<'_>, turns: &[Turn], bos: &str, eos: &str) -> Result<String, Error> {
    let messages: Vec<Value> = turns
        .iter()
        .map(|turn| context! { role => turn.speaker.name(), content => turn.text.as_str() })
        .collect();
    environment.get_template(NAME)?.render(context! {
        messages, add_generation_prompt => true, bos_token => bos, eos_token => eos,
    })
}

fn fold_system(turns: &[Turn]) -> Option<Vec<Turn>> {
    let [system, user, rest @ ..] = turns else { return None };
    if system.speaker != Speaker::System || user.speaker != Speaker::User {
        return None;
    }
    let first = Turn { speaker: Speaker::User, text: format!("{}\n\n{}", system.text, user.text) };
    Some(std::iter::once(first).chain(rest.iter().cloned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(speaker: Speaker, text: &str) -> Turn {
        Turn { speaker, text: text.into() }
    }

    #[test]
    fn templates_in_the_manner_of_the_python_library_run() {
        let source = "{{ bos_token }}{%- for m in messages -%}\n  {% if m['role'] == 'user' %}\n<u>{{ m['content'].strip() }}\n  {% elif m.role not in ['assistant'] %}\n{{ raise_exception('no ' ~ m.role) }}\n  {% endif %}\n{%- endfor -%}{% if add_generation_prompt %}<a>{% endif %}";
        let environment = environment(source).unwrap();
        assert_eq!(render(&environment, &[turn(Speaker::User, " hi ")], "<s>", "").unwrap(), "<s><u>hi\n<a>");
        let error = render(&environment, &[turn(Speaker::System, "x")], "", "").unwrap_err();
        assert!(error.to_string().contains("no system"), "{error}");
    }

    #[test]
    fn a_template_that_never_ends_is_stopped() {
        let source = "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}{% endfor %}{% endfor %}";
        assert!(render(&environment(source).unwrap(), &[], "", "").is_err());
        assert!(environment("{% if %}").is_none());
    }

    #[test]
    fn instructions_open_the_first_user_turn_where_there_is_no_system_turn() {
        let folded = fold_system(&[
            turn(Speaker::System, "Be brief."),
            turn(Speaker::User, "Hi"),
            turn(Speaker::Assistant, "Yo"),
        ])
        .unwrap();
        assert_eq!(folded, [turn(Speaker::User, "Be brief.\n\nHi"), turn(Speaker::Assistant, "Yo")]);
        assert_eq!(fold_system(&[turn(Speaker::User, "Hi"), turn(Speaker::Assistant, "Yo")]), None);
    }
}
