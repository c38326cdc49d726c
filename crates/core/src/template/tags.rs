//! The expressions and tags of a template's text.

use minijinja::{
    machinery::{Token, tokenize},
    syntax::SyntaxConfig,
};
use std::ops::Range;

/// Returns the expressions (`{{ … }}`), tags (`{% … %}`) and comments of a template, in their order, as they are
/// written. Strings inside of them end nothing, and what stands between `raw` tags is text. After a place that can't be
/// read, nothing more is returned.
pub fn tags(text: &str) -> Vec<&str> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut start = 0;
    for token in tokenize(text, false, SyntaxConfig::default()) {
        let Ok((token, span)) = token else { break };
        match token {
            Token::VariableStart | Token::BlockStart => start = span.start_offset as usize,
            Token::VariableEnd | Token::BlockEnd => found.push(start..span.end_offset as usize),
            _ => {}
        }
    }
    // The engine's reader skips comments.
    let mut at = 0;
    let mut comments = Vec::new();
    while let Some(start) = text[at..].find("{#").map(|start| at + start) {
        if let Some(around) = found.iter().find(|tag| tag.contains(&start)) {
            at = around.end;
            continue;
        }
        let end = text[start..].find("#}").map_or(text.len(), |end| start + end + 2);
        comments.push(start..end);
        at = end;
    }
    found.retain(|tag| !comments.iter().any(|comment| comment.contains(&tag.start)));
    found.extend(comments);
    found.sort_by_key(|tag| tag.start);
    found.into_iter().filter_map(|tag| text.get(tag)).collect()
}

#[cfg(test)]
mod tests {
    use super::tags;

    #[test]
    fn a_string_ends_no_tag_and_raw_text_has_none() {
        assert_eq!(tags("a {{ '}}' ~ x }} b"), ["{{ '}}' ~ x }}"]);
        assert_eq!(tags("{% raw %}{{ x }}{% endraw %}{{ y }}"), ["{{ y }}"]);
        assert_eq!(
            tags("{# {{ x }} #}{%- if a -%}{{ \"{#\" }}{% endif %}"),
            ["{# {{ x }} #}", "{%- if a -%}", "{{ \"{#\" }}", "{% endif %}"]
        );
        assert_eq!(tags("{{ x }} and {{ y"), ["{{ x }}"]);
        assert_eq!(tags("no { tag } at %} all"), [""; 0]);
    }
}
