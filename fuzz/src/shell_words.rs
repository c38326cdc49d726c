//! Commands: the words of a model's text.

use super::words::{Word, line, parse};

/// Splits a command into words and joins them again.
pub fn run(bytes: &[u8]) {
    let Ok(command) = std::str::from_utf8(bytes) else { return };
    let words = match parse(command) {
        Ok(words) => words,
        Err(refused) => {
            assert!(!refused.what.is_empty() && !refused.instead.is_empty());
            return;
        }
    };
    assert!(!words.is_empty());
    let normal = line(&words);
    assert_eq!(parse(&normal).as_ref(), Ok(&words), "{normal:?} is not the same command");
    assert_eq!(line(&parse(&normal).expect("it was read before")), normal);
    for word in &words {
        hold_word(word);
    }
}

fn hold_word(word: &Word) {
    let Some(text) = word.text() else {
        // Matching a wildcard is bounded and deterministic.
        let name = word.likeness().replace('?', "a");
        assert_eq!(word.matches(&name), word.matches(&name));
        return;
    };
    assert!(!text.contains('\0'), "no argument can hold a null character");
    assert!(word.matches(text), "{text:?} is not itself");
    assert_eq!(word.likeness(), text);
    assert_eq!(parse(&word.to_string()).as_deref(), Ok([word.clone()].as_slice()));
}
