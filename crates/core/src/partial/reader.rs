//! Reads a JSON value that arrives in pieces, in time proportional to the new bytes.
//!
//! A text that is not JSON, that the strict reader ([`crate::json`]) would refuse, or that its schema can't allow, ends
//! the reading: the rest shows nothing.

use super::{
    Growth, Key,
    shapes::{Kind, Node, Shapes},
};
use crate::json;
use serde_json::{Map, Value};
use std::{collections::HashSet, mem, sync::Arc};

/// Most containers in one another. [`json::read`] allows 127; the event around a value needs a few of them.
const MOST_DEPTH: usize = 120;

/// Most bytes of a value.
const MOST_BYTES: usize = 16 << 20;

/// Most bytes of the names on the way to a place. Each growth repeats them.
const MOST_NAMES: usize = 512;

/// Most characters of a number.
const MOST_DIGITS: usize = 1024;

/// The name of the member that holds a value which is not an object, where only objects can be sent.
const WRAPPER: &str = "result";

/// The object around a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrapper {
    /// Nothing stands around the value.
    None,
    /// The value is the member `result` of an object.
    Present,
    /// The value is the member `result` if this is the first member of the outermost object.
    Possible,
}

/// A reader of one value.
#[derive(Debug)]
pub(super) struct Reader {
    shapes: Arc<Shapes>,
    wrapper: Wrapper,
    /// The number of containers that are not part of the value: 1 inside the wrapper.
    outside: usize,
    state: LexerState,
    open: Vec<OpenContainer>,
    /// The bytes of the names on the way.
    names: usize,
    read: usize,
    /// The text of a name, a number, a word, or a string that is shown once it is complete.
    text: String,
    /// The escape that has begun.
    escape: String,
    /// The first half of a character that is written as two escapes.
    high: Option<u16>,
}

/// A container that has begun.
#[derive(Debug)]
struct OpenContainer {
    kind: Container,
    /// The nodes that allow it.
    nodes: Vec<Node>,
}

#[derive(Debug)]
enum Container {
    Array(usize),
    Object { names: HashSet<Arc<str>>, last: Arc<str> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LexerState {
    /// A value must begin.
    Value,
    /// A value must begin, or the array ends.
    FirstItem,
    /// A name must begin, or the object ends.
    FirstName,
    /// A name must begin.
    Name,
    Colon,
    /// A value has ended inside a container.
    Ended,
    InName,
    /// Inside a string that is shown while it grows.
    InString,
    /// Inside a string that is shown once it is complete.
    InWhole,
    InNumber,
    InWord,
    /// The value is complete.
    Complete,
    /// The text shows nothing more.
    Stopped,
}

/// The text shows nothing more.
struct Stop;

impl Reader {
    pub(super) fn new(shapes: Arc<Shapes>, wrapper: Wrapper) -> Self {
        Self {
            shapes,
            wrapper,
            outside: 0,
            state: LexerState::Value,
            open: Vec::new(),
            names: 0,
            read: 0,
            text: String::new(),
            escape: String::new(),
            high: None,
        }
    }

    /// Takes the next piece of the text, and adds the growth that it makes.
    pub(super) fn push(&mut self, piece: &str, grown: &mut Vec<Growth>) {
        let mut rest = piece;
        while !rest.is_empty() && !self.has_ended() {
            match self.step(rest, grown) {
                Ok(taken) => {
                    self.read += taken;
                    rest = &rest[taken..];
                }
                Err(Stop) => self.state = LexerState::Stopped,
            }
            if self.read > MOST_BYTES {
                self.state = LexerState::Stopped;
            }
        }
    }

    /// Returns true if the rest of the text shows nothing more.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.state, LexerState::Complete | LexerState::Stopped)
    }

    /// Reads a part of the text, and returns its length.
    fn step(&mut self, text: &str, grown: &mut Vec<Growth>) -> Result<usize, Stop> {
        match self.state {
            LexerState::InName | LexerState::InString | LexerState::InWhole => {
                return self.in_string(text, grown);
            }
            LexerState::InNumber => {
                let more = |c: char| matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E');
                let length = text.find(|c| !more(c)).unwrap_or(text.len());
                self.text.push_str(&text[..length]);
                if self.text.len() > MOST_DIGITS {
                    return Err(Stop);
                }
                if length < text.len() {
                    self.scalar(grown)?;
                }
                return Ok(length);
            }
            LexerState::InWord => {
                let length = text.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(text.len());
                self.text.push_str(&text[..length]);
                if self.text.len() > "false".len() {
                    return Err(Stop);
                }
                if length < text.len() || matches!(&*self.text, "true" | "false" | "null") {
                    self.scalar(grown)?;
                }
                return Ok(length);
            }
            _ => {}
        }
        let space = text.len() - text.trim_start_matches([' ', '\n', '\r', '\t']).len();
        if space > 0 {
            return Ok(space);
        }
        let Some(first) = text.chars().next() else { return Ok(0) };
        match (self.state, first) {
            (LexerState::Value | LexerState::FirstItem, '{') => self.begin_object(grown)?,
            (LexerState::Value | LexerState::FirstItem, '[') => self.begin_array(grown)?,
            (LexerState::Value | LexerState::FirstItem, '"') => self.begin_string(grown)?,
            (LexerState::Value | LexerState::FirstItem, '-' | '0'..='9') => self.state = LexerState::InNumber,
            (LexerState::Value | LexerState::FirstItem, 't' | 'f' | 'n') => self.state = LexerState::InWord,
            (LexerState::FirstItem, ']') | (LexerState::FirstName, '}') => self.close(first, grown)?,
            (LexerState::Name | LexerState::FirstName, '"') => self.state = LexerState::InName,
            (LexerState::Colon, ':') => self.state = LexerState::Value,
            (LexerState::Ended, ',') => match self.open.last().map(|open| &open.kind) {
                Some(Container::Array(_)) => self.state = LexerState::Value,
                Some(Container::Object { .. }) => self.state = LexerState::Name,
                None => return Err(Stop),
            },
            (LexerState::Ended, ']' | '}') => self.close(first, grown)?,
            _ => return Err(Stop),
        }
        // Numbers and words are read with their first character.
        Ok(if matches!(self.state, LexerState::InNumber | LexerState::InWord) { 0 } else { first.len_utf8() })
    }

    /// The nodes of the value that begins here, if they allow one of that kind.
    fn begin(&self, kind: Kind) -> Result<Vec<Node>, Stop> {
        let allowed = match self.open.last() {
            _ if self.open.len() == self.outside => self.shapes.of_kind(self.shapes.root(), kind),
            Some(OpenContainer { kind: Container::Array(index), nodes }) => {
                self.shapes.of_kind(&self.shapes.item(nodes, *index), kind)
            }
            Some(OpenContainer { kind: Container::Object { last, .. }, nodes }) => {
                self.shapes.of_kind(&self.shapes.member(nodes, last), kind)
            }
            None => Vec::new(),
        };
        if allowed.is_empty() { Err(Stop) } else { Ok(allowed) }
    }

    /// Returns true if the object that has just begun may be a wrapper, which its first name decides.
    fn is_undecided(&self) -> bool {
        self.open.len() == 1 && self.outside == 0 && self.wrapper != Wrapper::None
    }

    fn begin_object(&mut self, grown: &mut Vec<Growth>) -> Result<(), Stop> {
        let is_outermost = self.open.is_empty() && self.wrapper != Wrapper::None;
        let nodes = match self.begin(Kind::OBJECT) {
            Ok(nodes) if !is_outermost || self.wrapper == Wrapper::Possible => nodes,
            _ if is_outermost => Vec::new(),
            _ => return Err(Stop),
        };
        if !is_outermost {
            self.set(Value::Object(Map::new()), grown);
        }
        self.enter(Container::Object { names: HashSet::new(), last: "".into() }, nodes)?;
        self.state = LexerState::FirstName;
        Ok(())
    }

    fn begin_array(&mut self, grown: &mut Vec<Growth>) -> Result<(), Stop> {
        if self.open.is_empty() && self.wrapper == Wrapper::Present {
            return Err(Stop);
        }
        let nodes = self.begin(Kind::ARRAY)?;
        if self.open.is_empty() {
            self.wrapper = Wrapper::None;
        }
        self.set(Value::Array(Vec::new()), grown);
        self.enter(Container::Array(0), nodes)?;
        self.state = LexerState::FirstItem;
        Ok(())
    }

    fn enter(&mut self, kind: Container, nodes: Vec<Node>) -> Result<(), Stop> {
        if self.open.len() >= MOST_DEPTH {
            return Err(Stop);
        }
        self.open.push(OpenContainer { kind, nodes });
        Ok(())
    }

    fn begin_string(&mut self, grown: &mut Vec<Growth>) -> Result<(), Stop> {
        self.unless_outside_wrapper()?;
        let nodes = self.begin(Kind::STRING)?;
        self.state = if self.shapes.grows(&nodes) { LexerState::InString } else { LexerState::InWhole };
        if self.state == LexerState::InString {
            self.set(Value::String(String::new()), grown);
        }
        Ok(())
    }

    fn unless_outside_wrapper(&self) -> Result<(), Stop> {
        if self.open.is_empty() && self.wrapper == Wrapper::Present { Err(Stop) } else { Ok(()) }
    }

    /// Reads a part of a string.
    fn in_string(&mut self, text: &str, grown: &mut Vec<Growth>) -> Result<usize, Stop> {
        if !self.escape.is_empty() {
            return self.in_escape(text, grown);
        }
        let end = text.find(|c: char| matches!(c, '"' | '\\') || c < ' ').unwrap_or(text.len());
        if end > 0 {
            self.add(&text[..end], grown)?;
            return Ok(end);
        }
        match text.as_bytes().first() {
            Some(b'"') if self.high.is_none() => self.end_string(grown)?,
            Some(b'\\') => self.escape.push('\\'),
            // A control character, or half a character.
            _ => return Err(Stop),
        }
        Ok(1)
    }

    /// Reads a character of an escape.
    fn in_escape(&mut self, text: &str, grown: &mut Vec<Growth>) -> Result<usize, Stop> {
        let Some(c) = text.chars().next() else { return Ok(0) };
        self.escape.push(c);
        let decoded = match (&*self.escape, c) {
            ("\\u", _) => return Ok(1),
            (_, c) if self.escape.starts_with("\\u") => {
                if !c.is_ascii_hexdigit() {
                    return Err(Stop);
                }
                if self.escape.len() < 6 {
                    return Ok(1);
                }
                let unit = u16::from_str_radix(&self.escape[2..], 16).map_err(|_| Stop)?;
                let units = [self.high.take(), Some(unit)];
                match char::decode_utf16(units.into_iter().flatten()).next() {
                    Some(Ok(c)) => c,
                    Some(Err(_)) if units[0].is_none() && (0xD800..0xDC00).contains(&unit) => {
                        self.high = Some(unit);
                        self.escape.clear();
                        return Ok(1);
                    }
                    _ => return Err(Stop),
                }
            }
            (_, '"' | '\\' | '/') => c,
            (_, 'b') => '\u{8}',
            (_, 'f') => '\u{c}',
            (_, 'n') => '\n',
            (_, 'r') => '\r',
            (_, 't') => '\t',
            _ => return Err(Stop),
        };
        self.escape.clear();
        self.add(decoded.encode_utf8(&mut [0; 4]), grown)?;
        Ok(c.len_utf8())
    }

    /// Adds decoded text to the string.
    fn add(&mut self, text: &str, grown: &mut Vec<Growth>) -> Result<(), Stop> {
        if self.high.is_some() {
            return Err(Stop);
        }
        match self.state {
            LexerState::InString => Growth::Append { at: self.at(), append: text.to_owned() }.add(grown),
            _ => self.text.push_str(text),
        }
        Ok(())
    }

    fn end_string(&mut self, grown: &mut Vec<Growth>) -> Result<(), Stop> {
        match self.state {
            LexerState::InName => {
                let name: Arc<str> = mem::take(&mut self.text).into();
                self.named(name, grown)?;
                self.state = LexerState::Colon;
            }
            LexerState::InWhole => {
                let text = mem::take(&mut self.text);
                self.set(Value::String(text), grown);
                self.ended();
            }
            _ => self.ended(),
        }
        Ok(())
    }

    /// Takes the name of a member.
    fn named(&mut self, name: Arc<str>, grown: &mut Vec<Growth>) -> Result<(), Stop> {
        if self.open.len() == 1 && self.outside == 1 {
            // The wrapper has one member.
            return Err(Stop);
        }
        if self.is_undecided() {
            let declared = self.shapes.declares(self.shapes.root(), WRAPPER);
            if self.wrapper == Wrapper::Present || (*name == *WRAPPER && !declared) {
                self.outside = 1;
                return if *name == *WRAPPER { Ok(()) } else { Err(Stop) };
            }
            self.wrapper = Wrapper::None;
            self.show_outermost(grown)?;
        }
        let Some(OpenContainer { kind: Container::Object { names, last }, nodes }) = self.open.last_mut()
        else {
            return Err(Stop);
        };
        self.names = self.names - last.len() + name.len();
        if self.names > MOST_NAMES
            || !names.insert(Arc::clone(&name))
            || self.shapes.member(nodes, &name).is_empty()
        {
            return Err(Stop);
        }
        *last = name;
        Ok(())
    }

    /// Shows the outermost object, which is no wrapper.
    fn show_outermost(&self, grown: &mut Vec<Growth>) -> Result<(), Stop> {
        if self.open.last().is_none_or(|open| open.nodes.is_empty()) {
            return Err(Stop);
        }
        Growth::Set { at: Vec::new(), set: Value::Object(Map::new()) }.add(grown);
        Ok(())
    }

    /// Takes a number or a word.
    fn scalar(&mut self, grown: &mut Vec<Growth>) -> Result<(), Stop> {
        self.unless_outside_wrapper()?;
        let text = mem::take(&mut self.text);
        let value: Value = serde_json::from_str(&text).map_err(|_| Stop)?;
        let kind = match &value {
            Value::Bool(_) => Kind::BOOLEAN,
            Value::Null => Kind::NULL,
            _ => Kind::NUMBER,
        };
        json::exact(&text).map_err(|_| Stop)?;
        self.begin(kind)?;
        self.set(value, grown);
        self.ended();
        Ok(())
    }

    fn close(&mut self, bracket: char, grown: &mut Vec<Growth>) -> Result<(), Stop> {
        if bracket == '}' && self.is_undecided() {
            // It has no member.
            if self.wrapper == Wrapper::Present {
                return Err(Stop);
            }
            self.show_outermost(grown)?;
        }
        match (self.open.pop().map(|open| open.kind), bracket) {
            (Some(Container::Array(_)), ']') => {}
            (Some(Container::Object { last, .. }), '}') => {
                self.names = self.names.saturating_sub(last.len());
            }
            _ => return Err(Stop),
        }
        self.ended();
        Ok(())
    }

    /// Notes the end of a value.
    fn ended(&mut self) {
        self.state = LexerState::Ended;
        match self.open.last_mut().map(|open| &mut open.kind) {
            None => self.state = LexerState::Complete,
            Some(Container::Array(index)) => *index += 1,
            Some(Container::Object { .. }) => {}
        }
    }

    fn set(&self, value: Value, grown: &mut Vec<Growth>) {
        Growth::Set { at: self.at(), set: value }.add(grown);
    }

    /// The place of the value that is being read.
    fn at(&self) -> Vec<Key> {
        let inside = self.open.iter().skip(self.outside);
        inside
            .map(|open| match &open.kind {
                Container::Array(index) => Key::Index(*index),
                Container::Object { last, .. } => Key::Name(Arc::clone(last)),
            })
            .collect()
    }
}
