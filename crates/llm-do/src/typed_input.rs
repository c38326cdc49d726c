//! The input of a worker as a user types it behind the worker's name.

use llm_do_core::worker::{Parameter, Signature, WorkerDefinition};
use llm_do_program::signature::{Given, input_value, show, validate_input};
use serde_json::Value;

/// The input that typed arguments make: `NAME=VALUE`, with quotes as in a shell. A worker with one input takes it without
/// its name.
///
/// A word `NAME=VALUE` is an argument wherever NAME is a parameter. With another name it is a mistake if it comes before the
/// text, as in `/summarise stlye=short`, and part of the text if it comes after a word of it, as in
/// `/summarise solve x=1`. A text that begins with such a word is put in quotes: `/summarise "x=1 and y=2"`. `a = b`,
/// `a==b` and an address with a query are texts, because no word of them has this form.
///
/// # Errors
/// A quote that is not closed, or arguments that don't fit the worker's signature, in words for the user.
pub fn typed_input(worker: &WorkerDefinition, arguments: &str) -> Result<Value, String> {
    let signature = &worker.signature;
    let is_name = |name: &str| match signature.declared {
        true => signature.parameters.iter().any(|parameter| *parameter.name == *name),
        false => !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || letter == '_'),
    };
    let (mut parameters, mut unnamed) = (Vec::new(), Vec::new());
    for word in split(arguments)? {
        match word.text.split_once('=').filter(|(name, _)| is_name(name)) {
            Some((name, value)) => parameters.push((name.to_owned(), value.to_owned())),
            None => match word.argument().filter(|_| unnamed.is_empty() && signature.declared) {
                Some(name) => {
                    let (id, shown) = (&worker.id, show(&worker.id, signature));
                    return Err(format!("`{id}` has no parameter `{name}`\n  signature: {shown}"));
                }
                None => unnamed.push(word.text),
            },
        }
    }
    let mut message = (!unnamed.is_empty()).then(|| unnamed.join(" "));
    if signature.message.is_none()
        && let Some(only) = the_input(signature)
        && let Some(value) = message.take()
    {
        parameters.push((only.name.to_string(), value));
    }
    if let (None, Some(text)) = (&signature.message, &message) {
        let shown = show(&worker.id, signature);
        return Err(format!("`{text}` needs a name, as in NAME=VALUE\n  signature: {shown}"));
    }
    let given = Given { message: message.as_deref(), json: None, parameters: &parameters };
    let value = input_value(&worker.id, signature, given).map_err(|error| error.to_string())?;
    validate_input(&worker.id, signature, &value).map_err(|error| error.to_string())?;
    Ok(value)
}

/// Returns the parameter for an argument without a name: the only one, or the only required one.
fn the_input(signature: &Signature) -> Option<&Parameter> {
    let mut required = signature.parameters.iter().filter(|parameter| parameter.required);
    match (&signature.parameters[..], required.next(), required.next()) {
        ([only], ..) => Some(only),
        (_, only, None) => only,
        _ => None,
    }
}

/// A word that was typed.
#[derive(Default)]
struct Word {
    /// The word without its quotes.
    text: String,
    /// Position of the first quote or backslash in the word.
    quoted: Option<usize>,
}

impl Word {
    /// Returns the name in a word of the form `NAME=VALUE` whose name is not quoted.
    fn argument(&self) -> Option<&str> {
        let (name, value) = self.text.split_once('=')?;
        let mut letters = name.chars();
        let begins = letters.next().is_some_and(|first| first.is_alphabetic() || first == '_');
        let is_name =
            begins && letters.all(|letter| letter.is_alphanumeric() || letter == '_' || letter == '-');
        let is_plain = self.quoted.is_none_or(|quoted| quoted > name.len());
        (is_name && is_plain && !value.is_empty() && !value.starts_with('=')).then_some(name)
    }

    /// Notes the position of a quote or a backslash.
    fn quote(&mut self) {
        self.quoted.get_or_insert(self.text.len());
    }
}

/// Splits at white space. Quotes keep white space: nothing is special in `'…'`, a backslash makes the next character an
/// ordinary one in `"…"` and outside of quotes.
///
/// # Errors
/// A quote that is not closed.
fn split(text: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut word: Option<Word> = None;
    let mut quote: Option<char> = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default().quote();
            }
            (None | Some('"'), '\\') => {
                let word = word.get_or_insert_default();
                word.quote();
                word.text.extend(letters.next());
            }
            (None, letter) if letter.is_whitespace() => words.extend(word.take()),
            (_, letter) => word.get_or_insert_default().text.push(letter),
        }
    }
    if let Some(open) = quote {
        return Err(format!("the quote {open} is not closed"));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use llm_do_core::{authority::Place, toolset::ToolsetRegistry};
    use llm_do_program::{LoadOptions, Program, Source, Start, source::MemoryTree};
    use serde_json::json;
    use std::sync::Arc;

    #[test]
    fn arguments_are_split_as_in_a_shell() {
        let words = |text| match split(text) {
            Ok(words) => words.into_iter().map(|word| word.text).collect(),
            Err(error) => vec![error],
        };
        assert_eq!(words(r#"file=a.txt  style="very short""#), ["file=a.txt", "style=very short"]);
        assert_eq!(words(r#"'a "b"' c\ d "e\"f" """#), ["a \"b\"", "c d", "e\"f", ""]);
        assert_eq!(words("don't"), ["the quote ' is not closed"]);
        assert!(words("  ").is_empty());
    }

    /// Returns the input of a worker with these parameters.
    fn input(parameters: &str, arguments: &str) -> Result<Value, String> {
        let text = format!("---\nparameters: {parameters}\n---\nDo it.\n");
        let tree = MemoryTree::new(Place::new("/p"), [("main.worker", text.as_str())]);
        let source = Source { tree: Arc::new(tree), start: Start::Entry(None), manifest: true, work: None };
        let host = LoadOptions { toolsets: ToolsetRegistry::built_in(), ..LoadOptions::default() };
        let loaded = Program::load(source, host).map_err(|errors| errors.to_string())?;
        typed_input(loaded.program.entry(), arguments)
    }

    #[test]
    fn names_that_are_no_parameters_are_mistakes_before_the_text() {
        let refused = |parameters: &str, arguments: &str, name: &str| {
            let error = input(parameters, arguments).expect_err(arguments);
            assert!(
                error.starts_with(&format!("`main` has no parameter `{name}`\n  signature: main(")),
                "{error}"
            );
        };
        refused("{text: string}", "foo=1", "foo");
        refused("{text: string, style: string?}", "stlye=short A text.", "stlye");
        refused("{text: string, style: string?}", "style=short stlye=long", "stlye");
        refused("{from: string, to: string}", "from=a foo=1", "foo");
        refused("{count: integer}", "coutn=3", "coutn");
        refused("{text: string}", "foo='a b'", "foo");
        let error = input("{from: string, to: string}", "hello").expect_err("there are two inputs");
        assert!(error.starts_with("`hello` needs a name"), "{error}");
    }

    #[test]
    fn texts_may_hold_equals_signs() {
        for text in
            ["a = b", "solve x=1 and y=2", "a==b", "=1", "https://example.org/?a=b", "see foo=1", "abc="]
        {
            assert_eq!(input("{text: string}", text), Ok(json!({"text": text})));
        }
        for text in ["\"x=1 and y=2\"", "x\\=1 and y=2", "'x'=1 and y=2"] {
            assert_eq!(input("{text: string}", text), Ok(json!({"text": "x=1 and y=2"})), "{text}");
        }
        let both = json!({"text": "A text with x=1.", "style": "short"});
        assert_eq!(input("{text: string, style: string?}", "A text with x=1. style=short"), Ok(both.clone()));
        assert_eq!(input("{text: string, style: string?}", "'style=short' A text with x=1."), Ok(both));
    }
}
