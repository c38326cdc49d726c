//! The input of a worker as a user types it behind the worker's name.

use llm_do_core::worker::{Parameter, Signature, WorkerDefinition};
use llm_do_program::signature::{Given, input_value, show, validate_input};
use serde_json::Value;

/// The input that typed arguments make: `NAME=VALUE`, with quotes as in a shell. A worker with one input takes it without
/// its name.
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
        match word.split_once('=').filter(|(name, _)| is_name(name)) {
            Some((name, value)) => parameters.push((name.to_owned(), value.to_owned())),
            None => unnamed.push(word),
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

/// The parameter that an argument without a name fills: the only one, or the only one that must be given.
fn the_input(signature: &Signature) -> Option<&Parameter> {
    let mut required = signature.parameters.iter().filter(|parameter| parameter.required);
    match (&signature.parameters[..], required.next(), required.next()) {
        ([only], ..) => Some(only),
        (_, only, None) => only,
        _ => None,
    }
}

/// Splits at white space. Quotes keep white space: nothing is special in `'…'`, a backslash makes the next character an
/// ordinary one in `"…"` and outside of quotes.
///
/// # Errors
/// A quote that is not closed.
fn split(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(letters.next()),
            (None, letter) if letter.is_whitespace() => words.extend(word.take()),
            (_, letter) => word.get_or_insert_default().push(letter),
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

    #[test]
    fn arguments_are_split_as_in_a_shell() {
        let words = |text| split(text).unwrap_or_else(|error| vec![error]);
        assert_eq!(words(r#"file=a.txt  style="very short""#), ["file=a.txt", "style=very short"]);
        assert_eq!(words(r#"'a "b"' c\ d "e\"f" """#), ["a \"b\"", "c d", "e\"f", ""]);
        assert_eq!(words("don't"), ["the quote ' is not closed"]);
        assert!(words("  ").is_empty());
    }
}
