//! A limit on the nesting of a template's syntax.
//!
//! The engine's parser limits nested brackets and statements, but not chains (`a + a + …`, `x.a.a…`, `elif` after
//! `elif`). It compiles and drops chains recursively, so a long one would overflow the stack and end the process.
//! This module therefore counts the tokens before the engine sees the text. It also refuses an import under something
//! other than a plain name, which the engine's compiler assumes to be impossible.

use super::TemplateErrorKind;
use super::instrument::RESERVED;
use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;

/// Greatest number of operators, filters and attributes in one tag. Each costs a few kilobytes of stack in an
/// unoptimized build.
const LINKS: usize = 200;

/// Greatest number of `elif` around any place of a template.
const BRANCHES: usize = 200;

/// Syntax that the engine must not see, and the offset where it begins.
#[derive(Debug)]
pub(super) struct Unfit {
    pub(super) kind: TemplateErrorKind,
    pub(super) message: String,
    pub(super) offset: usize,
}

/// The parser state within an `{% import … as name %}`.
#[derive(Clone, Copy, PartialEq)]
enum Import {
    None,
    Source,
    Name,
    End,
}

/// Refuses a text with a chain that is too long, or with an import under something other than a name.
pub(super) fn check(text: &str) -> Result<(), Unfit> {
    let too_long = |what: &str, most: usize, offset: u32| {
        Err(Unfit {
            kind: TemplateErrorKind::Limit,
            message: format!("more than {most} {what}"),
            offset: offset as usize,
        })
    };
    let mut links = 0;
    let mut conditions = Vec::<usize>::new();
    let mut starts_tag = false;
    let mut after_operand = false;
    let mut import = Import::None;
    for token in tokenize(text, false, SyntaxConfig::default()) {
        // The parser reports invalid tokens.
        let Ok((token, span)) = token else { break };
        import = match (import, &token) {
            (_, Token::Ident("import")) if starts_tag => Import::Source,
            (Import::Source, Token::Ident("as")) => Import::Name,
            (Import::Name, Token::Ident(_)) => Import::End,
            (Import::End, Token::BlockEnd | Token::Ident("with" | "without")) => Import::None,
            (Import::Name | Import::End, _) => {
                let message = "give the import a plain name after `as`".to_owned();
                return Err(Unfit {
                    kind: TemplateErrorKind::Syntax,
                    message,
                    offset: span.start_offset as usize,
                });
            }
            (import, _) => import,
        };
        if let Token::Ident(name) = token
            && name.starts_with(RESERVED)
        {
            return Err(Unfit {
                kind: TemplateErrorKind::Syntax,
                message: format!("names that begin with `{RESERVED}` are reserved"),
                offset: span.start_offset as usize,
            });
        }
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
    fn an_import_gets_a_plain_name() {
        for name in ["a", "a with context", "a without context", "with_b"] {
            assert!(check(&format!("{{% import 'x.jinja' as {name} %}}")).is_ok(), "{name}");
        }
        for name in ["a%b", "a.b", "[1]", "1", "'a'", "a|upper", "(a)", "a + b", "-a", "a[0]", ""] {
            assert!(check(&format!("{{%- import 'x.jinja' as {name} -%}}")).is_err(), "{name}");
        }
        assert!(
            check("{% from 'x.jinja' import a as b, c %}{{ import }} as 1 {% if as %}{% endif %}").is_ok()
        );
    }

    #[test]
    fn raw_text_is_not_counted() {
        assert!(check(&format!("{{% raw %}}{}{{% endraw %}}", "{% elif %}".repeat(1_000))).is_ok());
    }
}
