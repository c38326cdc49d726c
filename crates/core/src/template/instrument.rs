//! Rewrites a template so that the engine calls this crate wherever it would build a value without a limit.
//!
//! The engine limits steps. A single step can double a text or a list (`~`, `+`, `*`), nest a list in another one, or
//! copy a text (a slice, a filter, a captured block), and the engine has no hook for that. The text for the engine
//! therefore differs from the text of the author: `a ~ b` is `(a)|__llm_do_join(b)`, and the value of a literal, a
//! slice or a filter passes through `__llm_do_kept` ([`Budget`](super::budget::Budget)). A step can also read a large
//! value: a comparison, `in`, a filter, a character of a text. Such a value passes through `__llm_do_seen` first. Lines
//! keep their numbers, and [`Instrumented::original`] finds the place of an error in the author's text.
//!
//! The names never collide with those of a template: a text that contains their prefix is refused.

use minijinja::machinery::{Span, Token, tokenize};
use minijinja::syntax::SyntaxConfig;

use super::shown::extended;

/// The prefix of our names.
pub(super) const RESERVED: &str = "__llm_do_";
/// The filter and function that measures a value.
pub(super) const KEPT: &str = "__llm_do_kept";
/// The filter and function that counts a value which the next step reads.
pub(super) const SEEN: &str = "__llm_do_seen";
/// The function that counts a container in which the next step looks for a value.
pub(super) const SOUGHT: &str = "__llm_do_sought";
/// The function that counts a text of which the next step takes a part.
pub(super) const CUT: &str = "__llm_do_cut";
/// The function that counts its arguments and returns them as a list.
pub(super) const ALL_SEEN: &str = "__llm_do_all_seen";
/// The function that measures a value which becomes an attribute of a namespace.
pub(super) const STORED: &str = "__llm_do_stored";
/// The function that counts plain text of a template.
pub(super) const RAW: &str = "__llm_do_raw";
/// The filter that marks a variable which a tag prints.
pub(super) const PRINTED: &str = "__llm_do_printed";
/// The filters for the operators `+`, `~` and `*`.
pub(super) const PLUS: &str = "__llm_do_plus";
pub(super) const JOIN: &str = "__llm_do_join";
pub(super) const TIMES: &str = "__llm_do_times";

/// The filters that do not read their whole value. `length` counts a text itself.
const CHEAP: &[&str] = &["count", "d", "default", "first", "last", "length", "safe"];

/// Plain text up to this length is not counted: with one step for each piece, the limit of steps suffices.
const SHORT: usize = 64;

/// A text for the engine.
#[derive(Debug, Default)]
pub(super) struct Instrumented {
    pub(super) text: String,
    /// The changes, in the order of the text.
    edits: Vec<Edit>,
}

/// Bytes of the author's text that are replaced.
#[derive(Debug, Default)]
struct Edit {
    at: usize,
    removed: usize,
    text: String,
    /// True if the text belongs to the code after it. Such an edit follows the others at the same offset.
    opens: bool,
}

impl Instrumented {
    /// Rewrites a template. Tags that print one of the `marked` variables whole, given as JSON pointers, are marked.
    pub(super) fn template(text: &str, marked: &dyn Fn(&str) -> bool) -> Self {
        Self::of(text, false, marked)
    }

    /// Rewrites an expression.
    pub(super) fn expression(text: &str) -> Self {
        Self::of(text, true, &|_| false)
    }

    fn of(text: &str, is_expression: bool, marked: &dyn Fn(&str) -> bool) -> Self {
        let mut writer = Writer { source: text, ..Writer::default() };
        if is_expression {
            writer.frames.push(Frame::of(Bracket::Tag));
        }
        // The engine's parser reports what cannot be read.
        let tokens: Vec<(Token<'_>, Span)> =
            tokenize(text, is_expression, SyntaxConfig::default()).map_while(Result::ok).collect();
        for (index, (token, span)) in tokens.iter().enumerate() {
            let next = tokens.get(index + 1).map(|(token, _)| token);
            writer.token(token, *span, next);
            if matches!(token, Token::VariableStart)
                && let Some(printed) = Printed::of(&tokens[index + 1..])
                && marked(&printed.pointer)
            {
                let Printed { end, pointer, joined } = printed;
                writer.insert(end, format!("|{PRINTED}('{pointer}', {joined})"));
            }
            writer.end = span.end_offset as usize;
        }
        writer.finish();
        let mut edits = std::mem::take(&mut writer.edits);
        // At the same place, what ends comes before what begins, and of what begins the outermost comes first.
        let count = edits.len();
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by_key(|&index| {
            let edit: &Edit = &edits[index];
            (edit.at, edit.opens, if edit.opens { count - index } else { index })
        });
        let mut sorted: Vec<Edit> = Vec::with_capacity(count);
        for index in order {
            sorted.push(std::mem::take(&mut edits[index]));
        }
        let edits = sorted;
        let mut whole = String::with_capacity(text.len() * 2);
        let mut done = 0;
        for edit in &edits {
            whole.push_str(text.get(done..edit.at).unwrap_or_default());
            whole.push_str(&edit.text);
            done = edit.at + edit.removed;
        }
        whole.push_str(text.get(done..).unwrap_or_default());
        Self { text: whole, edits }
    }

    /// Converts an offset in this text to the offset in the author's text.
    pub(super) fn original(&self, offset: usize) -> usize {
        let (mut here, mut there) = (0, 0);
        for Edit { at, removed, text, .. } in &self.edits {
            let begin = here + (at - there);
            if offset < begin {
                break;
            }
            if offset < begin + text.len() {
                return *at;
            }
            (here, there) = (begin + text.len(), at + removed);
        }
        there + (offset - here)
    }
}

/// A variable that a tag prints whole: `{{ a.b }}`, or with filters that lose nothing of it.
struct Printed {
    /// The end of the variable in the text.
    end: usize,
    /// The variable as a JSON pointer.
    pointer: String,
    /// Only the items of a list are printed.
    joined: bool,
}

impl Printed {
    /// Reads the tokens of a tag.
    fn of(tokens: &[(Token<'_>, Span)]) -> Option<Self> {
        let mut tokens = tokens.iter().map(|(token, span)| (token, *span)).peekable();
        let (Token::Ident(name), mut span) = tokens.next()? else { return None };
        let mut pointer = extended("", name);
        let mut joined = false;
        loop {
            match tokens.next()?.0 {
                Token::Dot => {
                    let (Token::Ident(key), at) = tokens.next()? else { return None };
                    (pointer, span) = (extended(&pointer, key), at);
                }
                Token::BracketOpen => {
                    let (Token::Str(key), _) = tokens.next()? else { return None };
                    let (Token::BracketClose, at) = tokens.next()? else { return None };
                    (pointer, span) = (extended(&pointer, key), at);
                }
                Token::VariableEnd => break,
                Token::Pipe => {
                    loop {
                        let (Token::Ident(filter), _) = tokens.next()? else { return None };
                        let mut arguments = Vec::new();
                        if tokens.next_if(|(token, _)| matches!(token, Token::ParenOpen)).is_some() {
                            loop {
                                match tokens.next()?.0 {
                                    Token::ParenClose => break,
                                    Token::ParenOpen => return None,
                                    argument => arguments.push(argument),
                                }
                            }
                        }
                        match *filter {
                            "string" | "safe" | "tojson" | "indent" | "default" | "d" | "wordwrap" => {}
                            "trim" if arguments.is_empty() => {}
                            "join" if matches!(arguments.as_slice(), [] | [Token::Str(_)]) => joined = true,
                            _ => return None,
                        }
                        match tokens.next()?.0 {
                            Token::Pipe => {}
                            Token::VariableEnd => break,
                            _ => return None,
                        }
                    }
                    break;
                }
                _ => return None,
            }
        }
        let is_plain = !pointer.contains(['\'', '\\', '\n', '\r']);
        is_plain.then_some(Self { end: span.end_offset as usize, pointer, joined })
    }
}

/// The kind of a bracket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bracket {
    /// A whole tag.
    Tag,
    /// Arguments of a call, or of a filter or test.
    Call,
    /// Arguments of a filter.
    Filter,
    /// An item or a slice.
    Subscript,
    /// A list or a map.
    Literal,
    /// A tuple, or an expression in parentheses.
    Group,
}

/// Operators bind in three levels: `+` and `-`, then `~`, then `*`, `/`, `//` and `%`.
const LEVELS: usize = 3;

/// An expression, up to a bracket around it.
#[derive(Debug)]
struct Frame {
    bracket: Bracket,
    /// The offset of the bracket, or of the value before it.
    start: usize,
    /// The offset of the first operand of the current chain of operators, for each level.
    chain: [Option<usize>; LEVELS],
    /// True if a filter that replaces an operator still needs its closing parenthesis.
    open: [bool; LEVELS],
    /// True if the last operator of the chain was replaced, so that another filter can follow without parentheses.
    flat: [bool; LEVELS],
    /// The offset of the value to which `.`, `[` and `(` refer.
    primary: usize,
    /// True if a comma, or a colon, was met.
    has_comma: bool,
    has_colon: bool,
    /// The comparison whose right side is being read.
    comparison: Option<Comparison>,
    /// True if the arguments pass through [`ALL_SEEN`].
    is_seen: bool,
}

/// A comparison with the value on its right.
#[derive(Debug)]
struct Comparison {
    /// The function that counts the value.
    function: &'static str,
    /// The offset of the value, once it has begun.
    start: Option<usize>,
    /// True if the value is a single literal, which needs no count.
    is_literal: bool,
}

impl Frame {
    fn of(bracket: Bracket) -> Self {
        Self {
            bracket,
            start: 0,
            chain: [None; LEVELS],
            open: [false; LEVELS],
            flat: [false; LEVELS],
            primary: 0,
            has_comma: false,
            has_colon: false,
            comparison: None,
            is_seen: false,
        }
    }
}

/// The meaning of a name that follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Name {
    #[default]
    Value,
    /// An attribute, after `.`.
    Attribute,
    /// A filter, after `|`.
    Filter,
    /// A test, after `is`.
    Test,
    /// An argument of a test, after its name.
    Argument,
}

/// The statements of tags that this module distinguishes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Statement {
    #[default]
    Other,
    For,
    Set,
    With,
}

#[derive(Default)]
struct Writer<'s> {
    source: &'s str,
    edits: Vec<Edit>,
    frames: Vec<Frame>,
    /// The end of the previous token.
    end: usize,
    after_operand: bool,
    starts_tag: bool,
    name: Name,
    statement: Statement,
    /// True if the tokens are the names that a statement sets.
    in_target: bool,
    /// True if such a name is an attribute.
    sets_attribute: bool,
    /// The start of the value of a `set`.
    value: Option<usize>,
    /// The offset at which the last value of a filter was measured.
    kept: Option<usize>,
    /// True if the arguments that follow pass through [`ALL_SEEN`].
    sees_arguments: bool,
}

impl Writer<'_> {
    fn insert(&mut self, at: usize, text: impl Into<String>) {
        self.edits.push(Edit { at, removed: 0, text: text.into(), opens: false });
    }

    fn insert_before(&mut self, at: usize, text: impl Into<String>) {
        self.edits.push(Edit { at, removed: 0, text: text.into(), opens: true });
    }

    /// Resets the state: the next token may begin a value.
    fn begin(&mut self) {
        self.after_operand = false;
        self.name = Name::Value;
    }

    /// Ends the chains of operators of the current expression.
    fn reset(&mut self) {
        self.close(0);
        self.end_comparison();
        if let Some(frame) = self.frames.last_mut() {
            frame.chain = [None; LEVELS];
            frame.flat = [false; LEVELS];
        }
        self.begin();
    }

    /// A comparison follows the value on its left.
    fn compare(&mut self, function: &'static str) {
        self.reset();
        if let Some(frame) = self.frames.last_mut() {
            frame.comparison = Some(Comparison { function, start: None, is_literal: false });
        }
    }

    /// Counts the value before `in`, which a text on the right compares in its printed form.
    fn seek(&mut self) {
        let start = self.frames.last().and_then(|frame| frame.chain[0]);
        if let (true, Some(start)) = (self.after_operand, start) {
            self.close(0);
            self.insert_before(start, format!("{SEEN}("));
            self.insert(self.end, ")");
        }
    }

    fn end_comparison(&mut self) {
        let comparison = self.frames.last_mut().and_then(|frame| frame.comparison.take());
        if let Some(Comparison { function, start: Some(start), is_literal: false }) = comparison {
            self.insert_before(start, format!("{function}("));
            self.insert(self.end, ")");
        }
    }

    /// Closes filters of this level and of those that bind more tightly.
    fn close(&mut self, level: usize) {
        let Some(frame) = self.frames.last_mut() else { return };
        let mut count = 0;
        for open in &mut frame.open[level..] {
            count += usize::from(std::mem::take(open));
        }
        if count > 0 {
            self.insert(self.end, ")".repeat(count));
        }
    }

    /// A value begins here.
    fn operand(&mut self, at: usize) {
        if let Some(frame) = self.frames.last_mut() {
            for chain in &mut frame.chain {
                chain.get_or_insert(at);
            }
            if !self.after_operand {
                frame.primary = at;
            }
            if let Some(comparison) = &mut frame.comparison {
                comparison.start.get_or_insert(at);
                comparison.is_literal = false;
            }
        }
    }

    /// A text or a number begins here.
    fn literal(&mut self, at: usize) {
        let is_whole = |frame: &Frame| frame.comparison.as_ref().is_some_and(|it| it.start.is_none());
        let is_whole = self.frames.last().is_some_and(is_whole);
        self.operand(at);
        if let Some(comparison) = self.frames.last_mut().and_then(|frame| frame.comparison.as_mut()) {
            comparison.is_literal = is_whole;
        }
        self.after_operand = true;
        self.name = Name::Value;
    }

    fn operator(&mut self, level: usize, span: Span, filter: Option<&str>) {
        self.close(level);
        let (at, removed) = (span.start_offset as usize, (span.end_offset - span.start_offset) as usize);
        let Some(frame) = self.frames.last_mut() else { return };
        let start = frame.chain[level].unwrap_or(at);
        frame.chain[level] = Some(start);
        let was_flat = std::mem::replace(&mut frame.flat[level], filter.is_some());
        for inner in level + 1..LEVELS {
            frame.chain[inner] = None;
            frame.flat[inner] = false;
        }
        if let Some(filter) = filter {
            frame.open[level] = true;
            let before = if was_flat { "" } else { ")" };
            if !was_flat {
                self.insert_before(start, "(");
            }
            self.edits.push(Edit { at, removed, text: format!("{before}|{filter}("), opens: false });
        }
        self.begin();
    }

    fn open(&mut self, bracket: Bracket, span: Span, next: Option<&Token<'_>>) {
        let at = span.start_offset as usize;
        let is_seen = bracket == Bracket::Call && std::mem::take(&mut self.sees_arguments);
        if is_seen {
            self.insert(span.end_offset as usize, format!("*{ALL_SEEN}("));
        }
        // A key of a map is a text.
        let is_key = matches!(next, Some(Token::Str(_) | Token::String(_)));
        if bracket == Bracket::Subscript
            && !is_key
            && self.kept != Some(at)
            && let Some(frame) = self.frames.last()
        {
            self.insert_before(frame.primary, format!("{CUT}("));
            self.insert(at, ")");
        }
        let is_value = matches!(bracket, Bracket::Literal | Bracket::Group);
        if is_value {
            self.operand(at);
        }
        let start = match (bracket, self.frames.last()) {
            (Bracket::Subscript, Some(frame)) => frame.primary,
            _ => at,
        };
        self.frames.push(Frame { start, is_seen, ..Frame::of(bracket) });
        self.begin();
    }

    fn shut(&mut self, span: Span) {
        self.close(0);
        self.end_comparison();
        let end = span.end_offset as usize;
        // A bracket that was never opened: the parser says so.
        if self.frames.len() > 1
            && let Some(frame) = self.frames.pop()
        {
            let is_built = match frame.bracket {
                Bracket::Literal => true,
                Bracket::Group => frame.has_comma,
                Bracket::Subscript => frame.has_colon,
                Bracket::Tag | Bracket::Call | Bracket::Filter => false,
            };
            if is_built {
                self.insert_before(frame.start, format!("{KEPT}("));
                self.insert(end, ")");
            }
            if frame.is_seen {
                self.insert(span.start_offset as usize, ")");
            }
            if frame.bracket == Bracket::Filter {
                self.measure(end);
            }
        }
        self.after_operand = true;
        self.name = Name::Value;
    }

    /// Measures the value of a filter that ends here.
    fn measure(&mut self, end: usize) {
        self.insert(end, format!("|{KEPT}"));
        self.kept = Some(end);
    }

    fn tag(&mut self, is_block: bool) {
        self.frames = vec![Frame::of(Bracket::Tag)];
        self.begin();
        self.starts_tag = is_block;
        self.statement = Statement::Other;
        (self.in_target, self.sets_attribute, self.value) = (false, false, None);
    }

    fn finish(&mut self) {
        self.frames.truncate(1);
        self.close(0);
        self.end_comparison();
        let has_comma = self.frames.last().is_some_and(|frame| frame.has_comma);
        if let Some(value) = self.value.take()
            && (has_comma || self.sets_attribute)
        {
            let function = if self.sets_attribute { STORED } else { KEPT };
            self.insert_before(value, format!("{function}(("));
            self.insert(self.end, "))");
        }
        self.frames.clear();
    }

    fn token(&mut self, token: &Token<'_>, span: Span, next: Option<&Token<'_>>) {
        let starts_tag = std::mem::take(&mut self.starts_tag);
        match token {
            Token::TemplateData(text) => {
                if text.len() > SHORT {
                    // The text after a tag that ends with a dash has lost its white space, and loses it to this tag now.
                    let before = &self.source[..self.end];
                    let dash = if before.ends_with("-%}") || before.ends_with("-}}") { "-" } else { "" };
                    self.insert(self.end, format!("{{{{ {RAW}({}) {dash}}}}}", text.len()));
                }
            }
            Token::VariableStart => self.tag(false),
            Token::BlockStart => self.tag(true),
            Token::VariableEnd | Token::BlockEnd => self.finish(),
            Token::Ident(word) if starts_tag => self.statement(word),
            _ if self.in_target => self.target(token, span),
            Token::Ident(word) => self.word(word, span, next),
            Token::Dot => self.name = Name::Attribute,
            Token::Pipe => {
                let is_cheap = matches!(next, Some(Token::Ident(filter)) if CHEAP.contains(filter));
                if !is_cheap && self.kept != Some(self.end) {
                    self.insert(self.end, format!("|{SEEN}"));
                }
                self.name = Name::Filter;
            }
            Token::BracketOpen if self.after_operand && self.name != Name::Argument => {
                self.open(Bracket::Subscript, span, next);
            }
            Token::BracketOpen | Token::BraceOpen => self.open(Bracket::Literal, span, next),
            Token::ParenOpen if self.name == Name::Filter => self.open(Bracket::Filter, span, next),
            Token::ParenOpen if self.after_operand => self.open(Bracket::Call, span, next),
            Token::ParenOpen => self.open(Bracket::Group, span, next),
            Token::BracketClose | Token::BraceClose | Token::ParenClose => self.shut(span),
            Token::Plus if self.after_operand => self.operator(0, span, Some(PLUS)),
            Token::Minus if self.after_operand && self.name != Name::Argument => self.operator(0, span, None),
            Token::Tilde => self.operator(1, span, Some(JOIN)),
            Token::Mul if self.after_operand => self.operator(2, span, Some(TIMES)),
            Token::Div | Token::FloorDiv | Token::Mod => self.operator(2, span, None),
            Token::Pow if self.after_operand => self.begin(),
            Token::Comma => {
                self.reset();
                if let Some(frame) = self.frames.last_mut() {
                    frame.has_comma = true;
                }
                self.in_target = self.statement == Statement::With && self.frames.len() == 1;
            }
            Token::Colon => {
                self.reset();
                if let Some(frame) = self.frames.last_mut() {
                    frame.has_colon = true;
                }
            }
            Token::Assign => self.reset(),
            Token::Eq | Token::Ne | Token::Gt | Token::Gte | Token::Lt | Token::Lte => self.compare(SEEN),
            Token::Str(_) | Token::String(_) | Token::Int(_) | Token::Int128(_) | Token::Float(_) => {
                self.literal(span.start_offset as usize);
            }
            // A sign, or `*` and `**` before an argument.
            Token::Minus | Token::Plus => {
                self.operand(span.start_offset as usize);
                if self.name == Name::Argument {
                    self.begin();
                }
            }
            Token::Mul | Token::Pow => {}
        }
    }

    fn statement(&mut self, word: &str) {
        self.statement = match word {
            "for" => Statement::For,
            "set" => Statement::Set,
            "with" => Statement::With,
            _ => Statement::Other,
        };
        self.in_target = self.statement != Statement::Other;
        match word {
            "filter" => self.name = Name::Filter,
            // Its parameters are names.
            "call" => self.after_operand = true,
            _ => {}
        }
    }

    /// A token of the names that a statement sets.
    fn target(&mut self, token: &Token<'_>, span: Span) {
        match (token, self.statement) {
            (Token::Ident("in"), Statement::For) | (Token::Assign, Statement::Set | Statement::With) => {
                self.in_target = false;
                self.begin();
                if self.statement == Statement::Set {
                    self.value = Some(span.end_offset as usize);
                }
            }
            // A block that is set passes through filters.
            (Token::Pipe, _) => {
                self.in_target = false;
                self.name = Name::Filter;
            }
            (Token::Dot, _) => self.sets_attribute = true,
            _ => {}
        }
    }

    fn word(&mut self, word: &str, span: Span, next: Option<&Token<'_>>) {
        let (start, end) = (span.start_offset as usize, span.end_offset as usize);
        match (std::mem::take(&mut self.name), word) {
            (Name::Attribute, _) => {
                // `loop.changed(value)` compares with the value before.
                self.sees_arguments = word == "changed" && matches!(next, Some(Token::ParenOpen));
                self.after_operand = true;
            }
            (Name::Filter, _) => {
                self.after_operand = true;
                match next {
                    // A name may have several parts.
                    Some(Token::Dot) => {}
                    Some(Token::ParenOpen) => self.name = Name::Filter,
                    _ => self.measure(end),
                }
            }
            (Name::Test, "not") => self.name = Name::Test,
            (Name::Test, _) => {
                self.after_operand = true;
                self.name = Name::Argument;
            }
            (_, "is") if self.after_operand => self.name = Name::Test,
            (_, "in") => {
                self.seek();
                self.compare(SOUGHT);
            }
            (_, "not") if matches!(next, Some(Token::Ident("in"))) => {
                self.seek();
                self.reset();
            }
            (_, "and" | "or" | "not" | "if" | "else") => self.reset(),
            (Name::Argument, _) => self.after_operand = true,
            // `ignore missing`, `as NAME`, `recursive` and other words of statements.
            (_, _) if self.after_operand => {
                self.reset();
                self.operand(start);
                self.after_operand = true;
            }
            _ => {
                self.operand(start);
                self.after_operand = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(text: &str) -> String {
        Instrumented::template(text, &|_| false).text.replace(RESERVED, "_")
    }

    #[test]
    fn operators_literals_slices_and_filters_pass_through_our_functions() {
        for (text, expected) in [
            ("{{ a ~ b ~ c }}", "{{ (a )|_join( b )|_join( c) }}"),
            ("{{ a * b ~ c + d }}", "{{ (((a )|_times( b ))|_join( c ))|_plus( d) }}"),
            ("{{ a - b + c }}", "{{ (a - b )|_plus( c) }}"),
            ("{{ a + b * c }}", "{{ (a )|_plus( (b )|_times( c)) }}"),
            ("{{ a|upper ~ -b.c[1:]|f(x + 1) }}", ""),
            ("{{ [a, b][0] }}", "{{ _cut(_kept([a, b]))[0] }}"),
            ("{{ x.y[1:].z }}", "{{ _kept(_cut(x.y)[1:]).z }}"),
            ("{{ x[0][i]['k'] }}", "{{ _cut(_cut(x)[0])[i]['k'] }}"),
            (
                "{{ a == b ~ c and d < 3 <= e|f }}",
                "{{ a == _seen((b )|_join( c) )and d < 3 <= _seen(e|_seen|f|_kept) }}",
            ),
            (
                "{{ a not in b or c in [d] }}",
                "{{ _seen(a)not in _sought(b )or _seen(c) in _sought(_kept([d])) }}",
            ),
            ("{{ a|length + b|first|upper }}", "{{ (a|length|_kept )|_plus( b|first|_kept|upper|_kept) }}"),
            ("{{ loop.changed(a, b.c) }}", "{{ loop.changed(*_all_seen(a, b.c)) }}"),
            ("{{ (a, b) if (a + b) else {1: c ~ d} }}", ""),
            ("{% set a.b = c ~ d %}", "{% set a.b =_stored(( (c )|_join( d))) %}"),
            ("{% set a = b, c %}", "{% set a =_kept(( b, c)) %}"),
            ("{% set a, b = c %}{% for x, y in a if x %}", "{% set a, b = c %}{% for x, y in a if x %}"),
            ("{% include 'a' ~ b ignore missing %}", "{% include ('a' )|_join( b) ignore missing %}"),
            ("{% filter upper %}{% set x | f(1) %}", "{% filter upper|_kept %}{% set x | f(1)|_kept %}"),
            ("{{ f(*a, **b) ** 2 }}", "{{ f(*a, **b) ** 2 }}"),
            ("{{ a is divisibleby 3 }}{{ -a }}", "{{ a is divisibleby 3 }}{{ -a }}"),
        ] {
            let found = rewritten(text);
            if !expected.is_empty() {
                assert_eq!(found.replace(' ', ""), expected.replace(' ', ""), "{text}");
            }
            let parses = |text: &str| minijinja::machinery::parse(text, "x", SyntaxConfig::default()).is_ok();
            assert_eq!(
                parses(&Instrumented::template(text, &|_| false).text),
                parses(text),
                "{text}: {found}"
            );
        }
    }

    #[test]
    fn places_are_found_again() {
        let text = "{{ a ~ [b] }}\n{% if x -%}\n  y{{ c + d|upper }}{% endif %}";
        let instrumented = Instrumented::template(text, &|_| false);
        for (at, _) in text.char_indices() {
            let letter = &text[at..=at];
            if letter.starts_with(|c: char| c.is_ascii_lowercase()) {
                let there = instrumented.text.char_indices().find(|(there, _)| {
                    instrumented.original(*there) == at && instrumented.text[*there..].starts_with(letter)
                });
                assert!(there.is_some(), "{letter} at {at}");
            }
        }
    }
}
