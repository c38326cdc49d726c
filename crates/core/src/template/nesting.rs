//! A bound on how deep a template's syntax nests.
//!
//! The engine's parser bounds brackets and statements within each other, but not chains (`a + a + …`, `x.a.a…`, `elif` after `elif`),
//! which it walks recursively all the same when it compiles and drops them: a long one would overflow the stack, and that
//! ends the process. So the tokens are counted before the engine sees the text.

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;

/// The most operators, filters and attributes in one tag. One of them costs a few kilobytes of stack in an unoptimized build.
const LINKS: usize = 200;

/// The most `elif` around any place of a template.
const BRANCHES: usize = 200;

/// What is too deep, and the offset where it gets so.
#[derive(Debug)]
pub(super) struct TooDeep {
    pub(super) message: String,
    pub(super) offset: usize,
}

/// Refuses a text with a chain that is too long.
pub(super) fn check(text: &str) -> Result<(), TooDeep> {
    let too_long = |what: &str, most: usize, offset: u32| {
        Err(TooDeep { message: format!("more than {most} {what}"), offset: offset as usize })
    };
    let mut links = 0;
    let mut conditions = Vec::<usize>::new();
    let mut starts_tag = false;
    let mut after_operand = false;
    for token in tokenize(text, false, SyntaxConfig::default()) {
        // What is not a token is the parser's to report.
        let Ok((token, span)) = token else { break };
        match token {
            Token::VariableStart | Token::BlockStart => links = 0,
            Token::Ident("if") if starts_tag => conditions.push(0),
            Token::Ident("elif") if starts_tag => {
                if let Some(branches) = conditions.last_mut() {
                    *branches += 1;
                }
                if conditions.iter().sum::<usize>() > BRANCHES {
                    return too_long("`elif` within each other", BRANCHES, span.start_offset);
                }
            }
            Token::Ident("endif") if starts_tag => {
                conditions.pop();
            }
            Token::Ident("and" | "or" | "not" | "in" | "is" | "if" | "else")
            | Token::Plus
            | Token::Minus
            | Token::Mul
            | Token::Div
            | Token::FloorDiv
            | Token::Pow
            | Token::Mod
            | Token::Dot
            | Token::Tilde
            | Token::Pipe
            | Token::Eq
            | Token::Ne
            | Token::Gt
            | Token::Gte
            | Token::Lt
            | Token::Lte => links += 1,
            Token::BracketOpen | Token::ParenOpen if after_operand => links += 1,
            _ => {}
        }
        if links > LINKS {
            return too_long("operators, filters and attributes in one tag", LINKS, span.start_offset);
        }
        starts_tag = matches!(token, Token::BlockStart);
        after_operand = matches!(
            token,
            Token::Ident(_)
                | Token::Str(_)
                | Token::String(_)
                | Token::BracketClose
                | Token::ParenClose
                | Token::BraceClose
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_flat_templates_are_not_deep() {
        let list = format!("{{{{ [{}] }}}}", "(1, 2), ".repeat(5_000));
        let tags = "{% if a.b %}{{ a.b|upper }}{% elif c %}x{% endif %}".repeat(5_000);
        assert!(check(&list).is_ok());
        assert!(check(&tags).is_ok());
    }

    #[test]
    fn raw_text_is_not_counted() {
        assert!(check(&format!("{{% raw %}}{}{{% endraw %}}", "{% elif %}".repeat(1_000))).is_ok());
    }
}
