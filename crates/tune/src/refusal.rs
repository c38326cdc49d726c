//! Proposals that are refused before a run.

use llm_do_core::template::tags;
use llm_do_program::cases::{Case, CaseFiles};
use serde_json::Value;
use std::collections::HashSet;

/// The number of words that a proposal may not share with a case: a shorter run is ordinary language, a longer one is a
/// memorised answer.
const RUN: usize = 5;

/// The words of the cases of a worker, for a comparison with proposals.
pub(crate) struct Memorised(HashSet<Vec<String>>);

impl Memorised {
    /// Takes the inputs, files and expected outputs of all cases. Runs that the instructions share with a case already may
    /// stay.
    pub(crate) fn of<'c>(cases: impl Iterator<Item = &'c Case>, instructions: &str) -> Self {
        let mut runs = HashSet::new();
        let mut add = |words: &[String]| runs.extend(words.windows(RUN).map(<[String]>::to_vec));
        for case in cases {
            add(&words_of(&case.input));
            if let Some(output) = &case.expect.output {
                add(&words_of(&output.expected(&Value::Null)));
            }
            if let CaseFiles::Inline(files) = &case.files {
                files.iter().for_each(|file| add(&words(&file.text)));
            }
        }
        for run in words(instructions).windows(RUN) {
            runs.remove(run);
        }
        Self(runs)
    }

    fn shared(&self, text: &str) -> Option<String> {
        words(text).windows(RUN).find(|run| self.0.contains(*run)).map(|run| run.join(" "))
    }
}

/// Returns the reason why instructions can't replace others. `first` are the instructions with which the search began.
/// `check` finds errors in the program with the new text.
pub(crate) fn refusal(
    text: &str,
    first: &str,
    memorised: &Memorised,
    max_growth: f64,
    check: impl FnOnce() -> Option<String>,
) -> Option<String> {
    if text.is_empty() {
        return Some("it is empty".into());
    }
    let (length, before) = (text.chars().count(), first.chars().count());
    if length as f64 > before as f64 * max_growth {
        return Some(format!(
            "it has {length} characters, and --max-growth {max_growth} allows {}",
            (before as f64 * max_growth) as usize
        ));
    }
    if let Some(tag) = changed_tag(first, text) {
        return Some(format!("it changes the template: {tag}"));
    }
    if let Some(run) = memorised.shared(text) {
        return Some(format!("it repeats {RUN} words of a case: \"{run}\""));
    }
    check()
}

/// Returns the first difference between the expressions, tags and comments of two templates. Expressions may move and be
/// repeated; tags, such as `{% if %}` and `{% endif %}`, keep their order.
fn changed_tag(before: &str, after: &str) -> Option<String> {
    let (before, after) = (tags(before), tags(after));
    let missing = before.iter().find(|tag| !after.contains(tag));
    let added = after.iter().find(|tag| !before.contains(tag));
    let is_tag = |tag: &&&str| tag.starts_with("{%");
    match (missing, added) {
        (Some(tag), _) => Some(format!("`{tag}` is missing")),
        (None, Some(tag)) => Some(format!("`{tag}` is new")),
        (None, None) if !before.iter().filter(is_tag).eq(after.iter().filter(is_tag)) => {
            Some("its tags have another order or number".into())
        }
        (None, None) => None,
    }
}

/// Splits a text into words, in lower case: runs of letters and digits. In scripts that write no spaces each character
/// counts as a word.
fn words(text: &str) -> Vec<String> {
    let split = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let mut words = Vec::new();
    for word in split {
        let mut rest = word;
        while let Some(at) = rest.find(writes_no_spaces) {
            let length = rest[at..].chars().next().map_or(0, char::len_utf8);
            words.extend((at > 0).then(|| rest[..at].to_lowercase()));
            words.push(rest[at..at + length].to_owned());
            rest = &rest[at + length..];
        }
        words.extend((!rest.is_empty()).then(|| rest.to_lowercase()));
    }
    words
}

/// Returns true for a character of a script that separates no words: Thai to Khmer, and the Chinese and Japanese ones.
fn writes_no_spaces(c: char) -> bool {
    matches!(c, '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{20000}'..='\u{3ffff}')
}

/// Returns the words of all texts, numbers and booleans in a value, in their order.
fn words_of(value: &Value) -> Vec<String> {
    match value {
        Value::Null => Vec::new(),
        Value::String(text) => words(text),
        Value::Bool(_) | Value::Number(_) => words(&value.to_string()),
        Value::Array(items) => items.iter().flat_map(words_of).collect(),
        Value::Object(map) => map.values().flat_map(words_of).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use llm_do_program::{cases::parse, span::SourceFile};

    const CASES: &str = "\
cases:
- name: pear
  input: {text: 'The pear that I ordered on Monday came bruised.'}
  expect: {output: {reply: 'We are sorry, and send another pear today.'}}
- name: file
  input: {text: short}
  files: {a.txt: 'words of a file that is long'}
  expect: {output: {reply: {matches: x}}}
";
    const FIRST: &str = "Answer {{ input.text }} politely{# why #}, as a grocer does.\n{% if input.text %}Be short.{% endif %}";

    fn refused(text: &str, max_growth: f64) -> String {
        let mut found = Vec::new();
        let cases = parse("w.cases.yaml", &SourceFile::new("w.cases.yaml", CASES), &mut found).cases;
        assert_eq!(cases.len(), 2, "{found:?}");
        let memorised = Memorised::of(cases.iter(), FIRST);
        refusal(text, FIRST, &memorised, max_growth, || None).unwrap_or_default()
    }

    #[test]
    fn memorised_answers_are_refused() {
        let with = |more: &str| refused(&format!("{FIRST} {more}"), 9.0);
        assert_eq!(with("Apologise for bruised fruit, and send another one."), "");
        // Capitals and punctuation hide nothing.
        assert!(with("PEAR that I: ordered, on").contains("\"pear that i ordered on\""));
        assert!(with("say: we are sorry and send").contains("we are sorry and send"));
        assert!(with("words of a file that").contains("words of a file that"));
        assert_eq!(with("that I ordered on"), "", "four words are no answer");
    }

    #[test]
    fn words_that_the_instructions_share_with_a_case_may_stay() {
        let mut found = Vec::new();
        let cases = parse("w.cases.yaml", &SourceFile::new("w.cases.yaml", CASES), &mut found).cases;
        let first = "Say: we are sorry, and send another.";
        let memorised = Memorised::of(cases.iter(), first);
        assert_eq!(memorised.shared("we are sorry and send another"), None);
        assert!(memorised.shared("are sorry and send another pear").is_some());
    }

    #[test]
    fn growth_is_limited() {
        let long = format!("{FIRST}{}", " more".repeat(40));
        assert!(refused(&long, 2.0).contains("--max-growth 2 allows"), "{}", refused(&long, 2.0));
        assert_eq!(refused(&long, 4.0), "");
        assert_eq!(refused("", 2.0), "it is empty");
    }

    #[test]
    fn the_template_stays_whole() {
        let with = |from: &str, to: &str| refused(&FIRST.replace(from, to), 2.0);
        assert_eq!(with("Answer {{ input.text }} politely", "Politely answer this: {{ input.text }}."), "");
        assert!(with("{{ input.text }}", "it").contains("`{{ input.text }}` is missing"));
        assert!(with("politely", "{{ run.date }}").contains("`{{ run.date }}` is new"));
        assert!(with("{# why #}", "").contains("`{# why #}` is missing"));
        assert!(with("{% endif %}", "").contains("`{% endif %}` is missing"));
        assert!(with("Be short.", "{% include 'x' %}").contains("`{% include 'x' %}` is new"));
        assert!(with("{% endif %}", "{% endif %}{% endif %}").contains("another order or number"));
        assert!(
            with("Be short.", "{{ input.te").contains("is missing"),
            "an open expression swallows the tag"
        );
        // A string ends no expression, and raw text is no template.
        let quoted = "Write {{ '{{ name }}' }}.";
        let longer = "Write {{ '{{ name }}' ~ file('secret.txt') ~ '.' }}";
        assert!(changed_tag(quoted, longer).is_some());
        let raw = "{% raw %}Never write {{ file('a') }}.{% endraw %}";
        assert!(changed_tag(raw, "{% raw %}Never.{% endraw %} {{ file('a') }}").is_some());
    }

    #[test]
    fn texts_without_spaces_have_words() {
        assert_eq!(words("Die Äpfel: 3"), ["die", "äpfel", "3"]);
        assert_eq!(words("我的订单 abc订"), ["我", "的", "订", "单", "abc", "订"]);
    }
}
