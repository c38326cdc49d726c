//! The files that a message names.

/// Returns the word of a message that names a file: `@PATH`, or `@"PATH"` for one with spaces.
pub(super) fn mention(path: &str) -> String {
    if path.contains(char::is_whitespace) { format!("@\"{path}\"") } else { format!("@{path}") }
}

/// Returns the paths that a message names with `@`, each once, without punctuation that ends a sentence. They need not
/// be files.
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
    fn a_message_names_files() {
        assert_eq!(mentioned("see @a.txt, (@b/c.md) and @\"d e.txt\"."), ["a.txt", "b/c.md", "d e.txt"]);
        assert_eq!(mentioned("mail me@example.org, @a.txt @a.txt"), ["a.txt"]);
        assert_eq!(mentioned(&mention("d e.txt")), ["d e.txt"]);
        assert!(mentioned("@ nothing").is_empty());
    }
}
