//! Macros with the semantics of the Python library.
//!
//! The engine evaluates the default of a parameter before the other parameters have values, and a macro takes only the
//! arguments that it declares. In Jinja2 a default may use the other parameters, and a macro that mentions `varargs` or
//! `kwargs` takes any further arguments. This module rewrites such macros for the engine:
//!
//! ```text
//! {% macro m(a, b=a) %}…     {% macro m(a, b) %}{% if b is undefined %}{% set b = a %}{% endif %}…
//! {% endmacro %}             {% endmacro %}{% set m = m|gathering(true, true) %}
//! ```
//!
//! Errors name places in the author's text.

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Enumerator, Kwargs, Object, Rest, Tuple, from_args};
use minijinja::{Error, ErrorKind, State, Value};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The name for further arguments without names.
const VARARGS: &str = "varargs";

/// The name for further arguments with names.
const KWARGS: &str = "kwargs";

/// A template, rewritten for the engine.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) text: String,
    /// The start of each piece, in the order of the text: in this text, and in the text of the author.
    pieces: Vec<(usize, usize)>,
}

impl Written {
    /// Converts an offset in this text to the offset in the author's text.
    pub(super) fn offset(&self, at: usize) -> usize {
        let piece = self.pieces.partition_point(|(here, _)| *here <= at).checked_sub(1);
        piece.map_or(at, |piece| self.pieces[piece].1 + (at - self.pieces[piece].0))
    }
}

/// A macro whose end has not been reached.
struct OpenMacro<'t> {
    /// The name of a macro; a `call` block has none.
    name: Option<&'t str>,
    parameters: Vec<Parameter<'t>>,
    /// The offset of the parenthesis after its parameters.
    closing: usize,
    /// True if a comma is needed before another parameter.
    needs_comma: bool,
    varargs: bool,
    kwargs: bool,
}

struct Parameter<'t> {
    name: &'t str,
    /// The text of its default.
    default: Option<Range<usize>>,
    /// The end of the parameter without its default.
    end: usize,
    /// The names that the default mentions.
    mentions: Vec<&'t str>,
}

/// A change of the text.
struct Edit {
    /// The range that is replaced.
    range: Range<usize>,
    /// The replacement: pieces of the author's text, and others.
    by: Vec<Result<Range<usize>, String>>,
}

/// The text for the engine. `None` if the author's text needs no change. An invalid template is left to the engine's
/// parser.
pub(super) fn written(text: &str) -> Option<Written> {
    if !text.contains("macro") && !text.contains("call") {
        return None;
    }
    let mut tokens = Vec::new();
    for token in tokenize(text, false, SyntaxConfig::default()) {
        let (token, span) = token.ok()?;
        tokens.push((token, span.start_offset as usize..span.end_offset as usize));
    }
    let mut edits = Vec::new();
    let mut open: Vec<OpenMacro<'_>> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let begins = matches!(tokens[at].0, Token::BlockStart);
        match tokens.get(at + 1).map(|(token, _)| token) {
            Some(Token::Ident(tag @ ("macro" | "call"))) if begins => {
                let (opened, end) = header(&tokens, at + 2, *tag == "macro")?;
                if opened.has_own_defaults() {
                    edits.extend(opened.defaults_in_body(start_of_end(text, &tokens[end].1)));
                }
                // What the tag itself mentions belongs to the macros around it.
                mention(&mut open, &tokens[at + 2..end]);
                open.push(opened);
                at = end + 1;
            }
            Some(Token::Ident("endmacro" | "endcall")) if begins => {
                let end = (at..tokens.len()).find(|at| matches!(tokens[*at].0, Token::BlockEnd))?;
                let closed = open.pop()?;
                edits.extend(closed.gathering(start_of_end(text, &tokens[end].1)));
                at = end + 1;
            }
            _ => {
                let before = at.checked_sub(1).map(|before| &tokens[before].0);
                if !matches!(before, Some(Token::Dot | Token::Pipe)) {
                    mention(&mut open, &tokens[at..=at]);
                }
                at += 1;
            }
        }
    }
    (!edits.is_empty()).then(|| edited(text, edits))
}

fn mention(open: &mut [OpenMacro<'_>], tokens: &[(Token<'_>, Range<usize>)]) {
    for (token, _) in tokens {
        let Token::Ident(name) = token else { continue };
        for open in &mut *open {
            open.varargs |= *name == VARARGS;
            open.kwargs |= *name == KWARGS;
        }
    }
}

/// The start of the end of a tag, with its control of white space.
fn start_of_end(text: &str, end: &Range<usize>) -> usize {
    match text[..end.start].ends_with(['-', '+']) && text[end.start..].starts_with('%') {
        true => end.start - 1,
        false => end.start,
    }
}

/// The parameters of a macro whose tag continues at the first token, and the token that ends the tag.
fn header<'t>(
    tokens: &[(Token<'t>, Range<usize>)],
    mut at: usize,
    is_macro: bool,
) -> Option<(OpenMacro<'t>, usize)> {
    let mut name = None;
    if is_macro {
        let Token::Ident(written) = tokens.get(at)?.0 else { return None };
        name = Some(written);
        at += 1;
    }
    let mut parameters = Vec::new();
    let mut needs_comma = false;
    if matches!(tokens.get(at)?.0, Token::ParenOpen) {
        at += 1;
        while let Token::Ident(name) = tokens.get(at)?.0 {
            let mut parameter =
                Parameter { name, default: None, end: tokens[at].1.end, mentions: Vec::new() };
            at += 1;
            if matches!(tokens.get(at)?.0, Token::Assign) {
                at += 1;
                let start = tokens.get(at)?.1.start;
                let mut depth = 0_usize;
                loop {
                    match &tokens.get(at)?.0 {
                        Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => depth += 1,
                        Token::Comma | Token::ParenClose if depth == 0 => break,
                        Token::ParenClose | Token::BracketClose | Token::BraceClose => {
                            depth = depth.checked_sub(1)?;
                        }
                        Token::BlockEnd => return None,
                        Token::Ident(name) => parameter.mentions.push(name),
                        _ => {}
                    }
                    at += 1;
                }
                parameter.default = Some(start..tokens[at - 1].1.end);
            }
            parameters.push(parameter);
            needs_comma = true;
            if matches!(tokens.get(at)?.0, Token::Comma) {
                needs_comma = false;
                at += 1;
            }
        }
        if !matches!(tokens.get(at)?.0, Token::ParenClose) {
            return None;
        }
    }
    let closing = tokens.get(at)?.1.start;
    let end = (at..tokens.len()).find(|at| matches!(tokens[*at].0, Token::BlockEnd))?;
    Some((OpenMacro { name, parameters, closing, needs_comma, varargs: false, kwargs: false }, end))
}

impl OpenMacro<'_> {
    fn declares(&self, name: &str) -> bool {
        self.parameters.iter().any(|parameter| parameter.name == name)
    }

    /// Returns true if a default uses another parameter.
    fn has_own_defaults(&self) -> bool {
        self.parameters.iter().any(|parameter| parameter.mentions.iter().any(|name| self.declares(name)))
    }

    /// Moves the defaults from the tag to the beginning of the body.
    fn defaults_in_body(&self, tag_end: usize) -> Vec<Edit> {
        let mut edits = Vec::new();
        let mut by = Vec::new();
        for Parameter { name, default, end, .. } in &self.parameters {
            let Some(default) = default else { continue };
            edits.push(Edit { range: *end..default.end, by: Vec::new() });
            by.push(Err(format!("%}}{{% if {name} is undefined %}}{{% set {name} = ")));
            by.push(Ok(default.clone()));
            by.push(Err(" %}{% endif ".to_owned()));
        }
        edits.push(Edit { range: tag_end..tag_end, by });
        edits
    }

    /// Makes a macro take further arguments, if it uses them.
    fn gathering(&self, end_tag_end: usize) -> Vec<Edit> {
        let varargs = self.varargs && !self.declares(VARARGS);
        let kwargs = self.kwargs && !self.declares(KWARGS);
        let Some(name) = self.name.filter(|_| varargs || kwargs) else { return Vec::new() };
        let mut declared = String::new();
        for (further, _) in [(VARARGS, varargs), (KWARGS, kwargs)].iter().filter(|(_, wanted)| *wanted) {
            let comma = if self.needs_comma || !declared.is_empty() { ", " } else { "" };
            declared.push_str(&format!("{comma}{further}=none"));
        }
        let gathering = format!("%}}{{% set {name} = {name}|{FILTER}({varargs}, {kwargs}) ");
        vec![
            Edit { range: self.closing..self.closing, by: vec![Err(declared)] },
            Edit { range: end_tag_end..end_tag_end, by: vec![Err(gathering)] },
        ]
    }
}

fn edited(text: &str, mut edits: Vec<Edit>) -> Written {
    edits.sort_by_key(|edit| edit.range.start);
    let mut written = Written { text: String::with_capacity(text.len() + 256), pieces: Vec::new() };
    let mut copied = 0;
    let mut put = |piece: &str, from: usize| {
        written.pieces.push((written.text.len(), from));
        written.text.push_str(piece);
    };
    for Edit { range, by } in edits {
        put(&text[copied..range.start], copied);
        for piece in by {
            match piece {
                Ok(of_author) => put(&text[of_author.clone()], of_author.start),
                Err(ours) => put(&ours, range.start),
            }
        }
        copied = range.end;
    }
    put(&text[copied..], copied);
    written
}

/// The name of [`gathering`] in the text for the engine. It is not among the filters that a template may use.
pub(super) const FILTER: &str = "gathering";

/// Makes a macro with the parameters `varargs` and `kwargs` take further arguments.
pub(super) fn gathering(inner: &Value, varargs: bool, kwargs: bool) -> Result<Value, Error> {
    let mut parameters = Vec::new();
    for name in inner.get_attr("arguments")?.try_iter()?.checked() {
        let name = name?.to_string();
        let is_further = name == VARARGS && varargs || name == KWARGS && kwargs;
        if !is_further {
            parameters.push(name);
        }
    }
    Ok(Value::from_object(Gathering { inner: inner.clone(), parameters, varargs, kwargs }))
}

/// A macro that takes further arguments.
struct Gathering {
    inner: Value,
    /// The parameters that it declares.
    parameters: Vec<String>,
    varargs: bool,
    kwargs: bool,
}

impl fmt::Debug for Gathering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.inner, f)
    }
}

impl Gathering {
    /// Returns true if the macro uses its `caller`.
    fn takes_caller(&self) -> bool {
        self.inner.get_attr("caller").is_ok_and(|takes| takes.is_true())
    }
}

impl Object for Gathering {
    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Str(&["name", "arguments", "caller", "catch_varargs", "catch_kwargs"])
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match key.as_str()? {
            "arguments" => {
                let names: Vec<Value> = self.parameters.iter().map(Value::from).collect();
                Some(Value::from(Tuple::from(names)))
            }
            "catch_varargs" => Some(Value::from(self.varargs)),
            "catch_kwargs" => Some(Value::from(self.kwargs)),
            of_macro => self.inner.get_attr(of_macro).ok().filter(|value| !value.is_undefined()),
        }
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, arguments: &[Value]) -> Result<Value, Error> {
        let (positional, named): (Rest<Value>, Kwargs) = from_args(arguments)?;
        let declared = positional.len().min(self.parameters.len());
        let (declared, further) = positional.split_at(declared);
        if !self.varargs && !further.is_empty() {
            let most = self.parameters.len();
            let message = format!("the macro takes at most {most} arguments without names");
            return Err(Error::new(ErrorKind::TooManyArguments, message));
        }
        let (mut passed, mut further_named) = (Vec::new(), Vec::new());
        for name in named.args() {
            let value: Value = named.get(name)?;
            // One that has its value already is a further argument.
            let mut open = self.parameters.iter().skip(if self.kwargs { declared.len() } else { 0 });
            let is_declared = open.any(|parameter| parameter == name);
            if is_declared || name == "caller" && self.takes_caller() {
                passed.push((name.to_owned(), value));
            } else if self.kwargs {
                further_named.push((name.to_owned(), value));
            } else {
                let message = format!("unknown keyword argument `{name}`");
                return Err(Error::new(ErrorKind::TooManyArguments, message));
            }
        }
        if self.varargs {
            passed.push((VARARGS.to_owned(), Value::from(Tuple::from(further.to_vec()))));
        }
        if self.kwargs {
            passed.push((KWARGS.to_owned(), Value::from_pairs(further_named)));
        }
        let mut all = declared.to_vec();
        all.push(Value::from(Kwargs::from_iter(passed)));
        self.inner.call(state, &all)
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.inner, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> String {
        written(text).map_or_else(|| text.to_owned(), |written| written.text)
    }

    #[test]
    fn defaults_that_use_parameters_move_into_the_body() {
        assert_eq!(
            of("{% macro m(a, b=a, c=[1, a.b]) -%} x {% endmacro %}"),
            "{% macro m(a, b, c) %}{% if b is undefined %}{% set b = a %}{% endif %}\
             {% if c is undefined %}{% set c = [1, a.b] %}{% endif -%} x {% endmacro %}"
        );
        assert_eq!(
            of("{% call(a, b = a) f(1) %}{% endcall %}"),
            "{% call(a, b) f(1) %}{% if b is undefined %}{% set b = a %}{% endif %}{% endcall %}"
        );
    }

    #[test]
    fn macros_that_use_further_arguments_take_them() {
        assert_eq!(
            of("{% macro m() %}{{ varargs }}{{ kwargs }}{%- endmacro -%} x"),
            "{% macro m(varargs=none, kwargs=none) %}{{ varargs }}{{ kwargs }}{%- endmacro %}\
             {% set m = m|gathering(true, true) -%} x"
        );
        assert_eq!(
            of("{% macro m(a, kwargs) %}{{ varargs + kwargs }}{% endmacro m %}"),
            "{% macro m(a, kwargs, varargs=none) %}{{ varargs + kwargs }}{% endmacro m %}\
             {% set m = m|gathering(true, false) %}"
        );
    }

    #[test]
    fn other_templates_stay_as_they_are() {
        for text in [
            "{% macro m(a, b=1, c=other) %}{{ a }}{{ x.kwargs }}{% endmacro %}{{ varargs }}",
            "{% call m(1) %}{{ caller }}{% endcall %}",
            "{% raw %}{% macro m(a, b=a) %}{% endraw %}",
            "{% macro m(a, b=a",
            "{# macro #} call",
            "{% macro %}{{ varargs }}{% endmacro %}",
        ] {
            assert!(written(text).is_none(), "{text}");
        }
    }

    #[test]
    fn places_are_those_of_the_author() {
        let text = "ab{% macro m(a, b=a.x) %}{{ c }}{% endmacro %}";
        let written = written(text).unwrap();
        for part in ["ab{%", "a.x", "{{ c }}", "endmacro"] {
            let (here, there) = (written.text.find(part).unwrap(), text.find(part).unwrap());
            assert_eq!(written.offset(here), there, "{part}");
        }
    }
}
