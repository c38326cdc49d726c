//! Valid names in the generated languages, whatever the names in the program.

use llm_do_visible as visible;
use std::collections::BTreeSet;

/// The names that are in use.
#[derive(Default)]
pub(super) struct Taken(BTreeSet<String>);

impl Taken {
    pub(super) fn with(names: &[&str]) -> Self {
        Self(names.iter().map(|name| (*name).to_owned()).collect())
    }

    /// Returns this name, or the first free one with a number behind it.
    pub(super) fn free(&mut self, name: &str) -> String {
        let mut free = name.to_owned();
        let mut number = 2;
        while !self.0.insert(free.clone()) {
            free = format!("{name}{number}");
            number += 1;
        }
        free
    }
}

/// Converts `a/short-one` to `AShortOne`: ASCII, and an identifier in every language.
pub(super) fn pascal(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let name: String = words
        .map(|word| {
            let (first, rest) = word.split_at(1);
            first.to_ascii_uppercase() + rest
        })
        .collect();
    match name.chars().next() {
        Some(first) if first.is_ascii_alphabetic() => name,
        _ => format!("T{name}"),
    }
}

/// Converts `Some key` to `some_key`: ASCII, and an identifier unless it is a keyword.
pub(super) fn snake(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars() {
        match c {
            c if c.is_ascii_uppercase() => {
                if name.chars().last().is_some_and(|last| last.is_ascii_lowercase()) {
                    name.push('_');
                }
                name.push(c.to_ascii_lowercase());
            }
            c if c.is_ascii_alphanumeric() => name.push(c),
            _ if name.ends_with('_') => {}
            _ => name.push('_'),
        }
    }
    let name = name.trim_matches('_').to_owned();
    match name.chars().next() {
        Some(first) if first.is_ascii_alphabetic() => name,
        _ => format!("f_{name}").trim_end_matches('_').to_owned(),
    }
}

/// Converts a text for people to one line, without characters that could end a comment or make the visible text differ
/// from the text that the compiler reads.
pub(super) fn line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let safe = |c: char| if c.is_ascii_control() || c == '\\' || c == '"' { ' ' } else { c };
    let text: String = words.join(" ").replace("*/", "* /").chars().map(safe).collect();
    visible::replaced(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_identifiers() {
        for (text, pascalised, snaked) in [
            ("a/short-one", "AShortOne", "a_short_one"),
            ("class", "Class", "class"),
            ("1st", "T1st", "f_1st"),
            ("ärger", "Rger", "rger"),
            ("日本", "T", "f"),
            ("", "T", "f"),
            ("camelCase", "CamelCase", "camel_case"),
        ] {
            assert_eq!((pascal(text).as_str(), snake(text).as_str()), (pascalised, snaked), "{text}");
        }
        let mut taken = Taken::with(&["A"]);
        assert_eq!(
            (taken.free("A"), taken.free("A"), taken.free("B")),
            ("A2".into(), "A3".into(), "B".into())
        );
        assert_eq!(line("a */ b\n\\\"c\u{7}"), "a * / b   c ");
        assert_eq!(line("a\u{202e}b\u{2d7f} क\u{94d}ष"), "a\u{fffd}b\u{fffd} क\u{94d}ष");
    }
}
