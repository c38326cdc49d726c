//! Display of llm-do's own pages on a terminal: marks headings, code and examples, and nothing else. Texts of models
//! are displayed in another way.

use crate::paint::Paint;

/// Returns the page with its marks as colours.
pub(crate) fn styled(page: &str, paint: Paint) -> String {
    let mut out = String::with_capacity(page.len());
    let mut in_code = false;
    for line in page.lines() {
        if line.starts_with("```") {
            in_code = !in_code;
            continue;
        }
        let line = if in_code {
            if line.is_empty() { String::new() } else { format!("    {}", paint.dim(line)) }
        } else if let Some(heading) =
            line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#'))
        {
            paint.bold(heading).to_string()
        } else {
            inline(line, paint)
        };
        out.push_str(&line);
        out.push('\n');
    }
    out
}

/// Colours code between backticks. Without colours the backticks stay, because only they distinguish the code.
fn inline(line: &str, paint: Paint) -> String {
    if !paint.is_on() || line.matches('`').count() % 2 == 1 {
        return line.to_owned();
    }
    let pieces = line.split('`').enumerate();
    pieces
        .map(|(i, piece)| if i % 2 == 1 { paint.cyan(piece).to_string() } else { piece.to_owned() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paint::ColourChoice;

    const PAGE: &str =
        "# E0201: unknown key\n\nA `key` is.\n\n```yaml\na: `b`\n\nc: 1\n```\n\n## What to do\n";

    #[test]
    fn a_page_is_readable_without_colours() {
        assert_eq!(
            styled(PAGE, Paint::NEVER),
            "E0201: unknown key\n\nA `key` is.\n\n    a: `b`\n\n    c: 1\n\nWhat to do\n"
        );
    }

    #[test]
    fn marks_become_colours() {
        let text = styled(PAGE, ColourChoice::Always.paint(false));
        assert!(text.starts_with("\u{1b}[1mE0201: unknown key\u{1b}[0m\n"), "{text:?}");
        assert!(
            text.contains("A \u{1b}[36mkey\u{1b}[39m is.") || text.contains("A \u{1b}[36mkey\u{1b}[0m is."),
            "{text:?}"
        );
    }
}
