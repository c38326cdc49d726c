//! The words of a command's arguments, and the files that a message names.

/// Splits at white space. Quotes keep white space: nothing is special in `'…'`, a backslash makes the next character an
/// ordinary one in `"…"` and outside of quotes.
///
/// # Errors
/// A quote that is not closed.
pub(super) fn split(text: &str) -> Result<Vec<String>, String> {
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

/// The word of a message that names a file: `@PATH`, or `@"PATH"` for one with spaces.
pub(super) fn mention(path: &str) -> String {
    if path.contains(char::is_whitespace) { format!("@\"{path}\"") } else { format!("@{path}") }
}

/// The paths that a message names with `@`, each once, without punctuation that ends a sentence. Whether they are files
/// is another question.
pub(super) fn mentioned(message: &str) -> Vec<String> {
    let mut paths: Vec<String> = Vec::new();
    let mut rest = message;
    let mut begins = true;
    while let Some(letter) = rest.chars().next() {
        let after = &rest[letter.len_utf8()..];
        if letter != '@' || !begins {
            (begins, rest) = (letter.is_whitespace() || letter == '(', after);
            continue;
        }
        let (path, left) = match after.strip_prefix('"').and_then(|quoted| quoted.split_once('"')) {
            Some((path, left)) => (path, left),
            None => {
                let end = after.find(char::is_whitespace).unwrap_or(after.len());
                (after[..end].trim_end_matches(['.', ',', ';', ':', '!', '?', ')']), &after[end..])
            }
        };
        if !path.is_empty() && !paths.iter().any(|known| known == path) {
            paths.push(path.to_owned());
        }
        (begins, rest) = (false, left);
    }
    paths
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

    #[test]
    fn a_message_names_files() {
        assert_eq!(mentioned("see @a.txt, (@b/c.md) and @\"d e.txt\"."), ["a.txt", "b/c.md", "d e.txt"]);
        assert_eq!(mentioned("mail me@example.org, @a.txt @a.txt"), ["a.txt"]);
        assert_eq!(mentioned(&mention("d e.txt")), ["d e.txt"]);
        assert!(mentioned("@ nothing").is_empty());
    }
}
