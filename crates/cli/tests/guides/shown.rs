//! Compares the output that a page shows with the output that a command printed.

use std::collections::BTreeMap;

/// The sign for a part that differs between two runs. As a line of its own it matches any lines.
const ANY: char = '…';

/// The words of a page that represent other words, such as `6b1f…` for a token, with those words.
pub(crate) type Words = BTreeMap<String, String>;

/// Compares the shown lines with the printed ones. Returns the words of the page that represent others, or `None` if
/// the output differs. `whole`: nothing else may be printed; otherwise lines may be left out anywhere.
pub(crate) fn fits(shown: &[String], printed: &[String], whole: bool) -> Option<Words> {
    let mut words = Words::new();
    lines_fit(shown, printed, whole, &mut words).then_some(words)
}

fn lines_fit(shown: &[String], printed: &[String], whole: bool, words: &mut Words) -> bool {
    let Some((first, rest)) = shown.split_first() else { return printed.is_empty() || !whole };
    if first.trim() == "…" {
        return (0..=printed.len()).any(|skipped| lines_fit(rest, &printed[skipped..], whole, words));
    }
    let last = if whole { printed.len().min(1) } else { printed.len() };
    (0..last).any(|at| {
        let mut found = words.clone();
        let fits = line_fits(first, &printed[at], &mut found)
            && lines_fit(rest, &printed[at + 1..], whole, &mut found);
        if fits {
            *words = found;
        }
        fits
    })
}

/// Compares two lines without regard to the width of blanks. A word with `…` matches any text, which may contain run
/// IDs.
fn line_fits(shown: &str, printed: &str, words: &mut Words) -> bool {
    let mut found = words.clone();
    let fits = matches(&blanks(shown), &blanks(printed), &mut found);
    if fits {
        *words = found;
    }
    fits || matches(&steady(shown), &steady(printed), words)
}

fn matches(shown: &str, printed: &str, words: &mut Words) -> bool {
    let mut literal = String::new();
    let mut parts = Vec::new();
    for piece in pieces(shown) {
        match piece.contains(ANY) {
            true => parts.push((std::mem::take(&mut literal), piece.to_owned())),
            false => literal.push_str(piece),
        }
    }
    let Some(mut rest) = parts.first().map_or(Some(printed), |(text, _)| printed.strip_prefix(&**text))
    else {
        return false;
    };
    for (n, (_, word)) in parts.iter().enumerate() {
        let (next, is_last) = parts.get(n + 1).map_or((&*literal, true), |(text, _)| (&**text, false));
        let end = match (next.is_empty(), is_last) {
            (true, _) => Some(rest.len()),
            (false, true) => rest.strip_suffix(next).map(str::len),
            (false, false) => rest.find(next),
        };
        let Some(end) = end else { return false };
        words.insert(word.clone(), rest[..end].to_owned());
        rest = &rest[end + next.len()..];
    }
    if parts.is_empty() { literal == printed } else { rest.is_empty() }
}

/// Splits a line into words and the text between them.
fn pieces(line: &str) -> impl Iterator<Item = &str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '-' || c == '_' || c == ANY;
    let mut rest = line;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let end = rest.find(|c| is_word(c) != is_word(first)).unwrap_or(rest.len());
        let (piece, left) = rest.split_at(end);
        rest = left;
        Some(piece)
    })
}

/// Returns a line with single blanks.
fn blanks(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns a line without run IDs and durations, and without trailing and repeated blanks.
fn steady(line: &str) -> String {
    let words = line.split_whitespace().map(|word| if is_duration(word) { "[TIME]" } else { word });
    let line = words.collect::<Vec<_>>().join(" ");
    let mut out = String::new();
    for piece in pieces(&line) {
        out.push_str(if is_run_id(piece) { "[RUN]" } else { piece });
    }
    out
}

fn is_duration(word: &str) -> bool {
    let number = word.trim_end_matches(['s', 'm', 'µ']);
    number.len() < word.len() && number.parse::<f64>().is_ok()
}

fn is_run_id(word: &str) -> bool {
    let parts: Vec<&str> = word.split('-').collect();
    parts.iter().map(|part| part.len()).eq([8, 6, 4])
        && parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn differing_parts_have_a_sign() {
        let shown = "token: 6b1f…\n…\ndone in 89ms · run 20261127-054510-1f37";
        let printed = "token: 0011223344\na\nb\ndone in 1.2s · run 20270101-000000-abcd";
        let words = fits(&lines(shown), &lines(printed), true).expect("they fit");
        assert_eq!(words["6b1f…"], "0011223344");
    }

    #[test]
    fn other_output_does_not_fit() {
        for (shown, printed) in [
            ("a", "b"),
            ("a", "a\nb"),
            ("a\nb", "a"),
            ("", "a"),
            ("x 6b1f… y", "x 1 z"),
            ("{\"run\":\"2026…\",\"state\":\"done\"}", "{\"run\":\"2026\",\"state\":\"failed\"}"),
        ] {
            assert!(fits(&lines(shown), &lines(printed), true).is_none(), "{shown} {printed}");
        }
    }

    #[test]
    fn a_terminal_may_show_more() {
        assert!(fits(&lines("a\nc"), &lines("x\na\nb\nc\n"), false).is_some());
        assert!(fits(&lines("c\na"), &lines("x\na\nb\nc\n"), false).is_none());
    }
}
