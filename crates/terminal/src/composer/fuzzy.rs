//! Finding names by some of their letters in order.

/// Items that contain the letters of `pattern` in order, letter case apart, the best first. Letters in sequence, at the
/// start of a word and near the beginning count for more; a shorter text wins a tie. An empty pattern keeps all items as
/// they are.
pub fn rank<T>(pattern: &str, items: impl IntoIterator<Item = T>, text: impl Fn(&T) -> &str) -> Vec<T> {
    if pattern.is_empty() {
        return items.into_iter().collect();
    }
    let mut scored: Vec<(i64, T)> =
        items.into_iter().filter_map(|item| Some((score(pattern, text(&item))?, item))).collect();
    // Stable, so that equals keep their order.
    scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    scored.into_iter().map(|(_, item)| item).collect()
}

/// Returns a score of how well a text fits, or `None` if it does not contain the letters in order.
pub fn score(pattern: &str, text: &str) -> Option<i64> {
    let wanted: Vec<char> = pattern.chars().flat_map(char::to_lowercase).collect();
    let text: Vec<char> = text.chars().collect();
    // The best score of an alignment whose last letter stands at a place, letter by letter.
    let mut best: Vec<Option<i64>> = vec![None; text.len()];
    for (number, letter) in wanted.iter().enumerate() {
        let mut row = vec![None; text.len()];
        let mut reached: Option<i64> = None;
        for (at, c) in text.iter().enumerate() {
            if c.to_lowercase().eq(std::iter::once(*letter)) {
                let begins = at == 0 || is_start(text[at - 1], *c);
                let bonus = if begins { 8 } else { 0 };
                row[at] = if number == 0 {
                    Some(bonus - i64::try_from(at.min(20)).unwrap_or(20) / 4)
                } else {
                    let next = at.checked_sub(1).and_then(|before| best[before]).map(|score| score + 10);
                    // One more letter between costs one, at most three.
                    let apart = reached.map(|score| score - 3 + bonus);
                    next.max(apart)
                };
            }
            if at > 0 || number > 0 {
                reached = reached.max(best[at]);
            }
        }
        best = row;
    }
    let length = i64::try_from(text.len()).unwrap_or(i64::MAX);
    best.into_iter().flatten().max().map(|score| score * 64 - length.min(63))
}

fn is_start(before: char, c: char) -> bool {
    !before.is_alphanumeric() || (before.is_lowercase() && c.is_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_comes_first() {
        let names = ["src/parser.rs", "src/main.rs", "docs/map.md", "Makefile", "a/m/a/i/n.txt"];
        assert_eq!(rank("main", names, |name| name), ["src/main.rs", "a/m/a/i/n.txt"]);
        assert_eq!(rank("MK", names, |name| name), ["Makefile"]);
        assert_eq!(rank("srm", names, |name| name)[0], "src/main.rs");
        assert_eq!(rank("", names, |name| name), names);
        assert_eq!(rank("zzz", names, |name| name), [""; 0]);
    }
}
