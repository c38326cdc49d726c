//! The sizes of the values that a rendering builds (`docs/reference/templates.md#limits`).

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use minijinja::value::{StringInput, Tuple, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

use super::TemplateErrorKind;
use super::error::own;

/// The size of an item of a list or a map, besides its text.
const ITEM: usize = 32;
/// Most nested lists and maps in a value. Printing or dropping one level takes stack.
const DEEPEST: usize = 100;
/// The length of a text that counts as a value that is read.
const PIECE: usize = 16;
/// Limits for the size of all values together, for that of a list with its items, and for the number of values that a
/// rendering reads or measures, as multiples of the longest text.
const ALL: usize = 16;
const LIST: usize = 4;
const LOOKS: usize = 5;

/// The sizes of the values that a rendering has built.
#[derive(Debug)]
pub(super) struct Budget {
    longest: usize,
    built: AtomicUsize,
    looked: AtomicUsize,
}

impl Budget {
    /// An empty budget. A text has at most `longest` bytes.
    pub(super) fn new(longest: usize) -> Self {
        Self { longest, built: AtomicUsize::new(0), looked: AtomicUsize::new(0) }
    }

    /// Counts bytes that are built or printed.
    pub(super) fn charge(&self, bytes: usize) -> Result<(), Error> {
        let most = self.longest.saturating_mul(ALL);
        match self.built.fetch_add(bytes, Relaxed).saturating_add(bytes) > most {
            true => Err(limit(format!("the template builds more than {most} bytes of text and lists"))),
            false => Ok(()),
        }
    }

    /// Counts a text of this length, which need not exist yet.
    pub(super) fn text(&self, bytes: usize) -> Result<(), Error> {
        if bytes > self.longest {
            return Err(self.too_long());
        }
        self.charge(bytes)
    }

    fn too_long(&self) -> Error {
        limit(format!("a text grows beyond {} bytes", self.longest))
    }

    fn look(&self) -> Result<(), Error> {
        self.looks(1)
    }

    fn looks(&self, count: usize) -> Result<(), Error> {
        let most = self.longest.saturating_mul(LOOKS);
        match self.looked.fetch_add(count, Relaxed).saturating_add(count) > most {
            true => {
                Err(limit("the template handles texts or lists that are too large, too often".to_owned()))
            }
            false => Ok(()),
        }
    }

    /// Counts a value that the engine reads whole, without a limit of its own.
    pub(super) fn seen(&self, value: &Value) -> Result<(), Error> {
        self.cut(value)?;
        self.items_seen(value, 0)
    }

    /// Counts a container in which the engine looks for a value.
    pub(super) fn sought(&self, container: &Value) -> Result<(), Error> {
        match container.kind() {
            // The engine finds a key without reading the others.
            ValueKind::Map => self.look(),
            _ => self.seen(container),
        }
    }

    /// Counts a text. The engine counts its characters to find a place in it.
    pub(super) fn cut(&self, value: &Value) -> Result<(), Error> {
        value.as_str().map_or(Ok(()), |text| self.read(text.len()))
    }

    /// Counts bytes of a text that the engine reads.
    pub(super) fn read(&self, bytes: usize) -> Result<(), Error> {
        self.looks(1 + bytes / PIECE)
    }

    fn items_seen(&self, value: &Value, depth: usize) -> Result<(), Error> {
        let is_map = value.kind() == ValueKind::Map;
        // Deeper values can't be built, and those of the input are not as deep.
        if depth > 2 * DEEPEST || !(is_map || matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)) {
            return Ok(());
        }
        for item in value.try_iter()?.checked() {
            let item = item?;
            self.look()?;
            self.cut(&item)?;
            self.items_seen(&item, depth + 1)?;
            if is_map {
                let inner = value.get_item(&item)?;
                self.cut(&inner)?;
                self.items_seen(&inner, depth + 1)?;
            }
        }
        Ok(())
    }

    /// Counts a value that was built, and returns it if it is small enough. Lazy values are computed now instead of at
    /// each use.
    pub(super) fn kept(&self, value: Value) -> Result<Value, Error> {
        if let Some(text) = value.as_str() {
            self.text(text.len())?;
            return Ok(value);
        }
        let value = match value.kind() {
            ValueKind::Iterable => {
                let mut items = Vec::new();
                for item in value.try_iter()?.checked() {
                    self.look()?;
                    items.push(item?);
                    if items.len() * ITEM > self.longest.saturating_mul(LIST) {
                        return Err(self.too_large());
                    }
                }
                Value::from(items)
            }
            ValueKind::Seq | ValueKind::Map => value,
            _ => return Ok(value),
        };
        self.measure(&value, 0, &mut 0, &mut 0)?;
        self.charge(value.len().unwrap_or(0).saturating_mul(ITEM))?;
        Ok(value)
    }

    /// Counts a value that becomes an attribute of a namespace. A value that contains a namespace or a loop could
    /// contain itself, and would never be freed.
    pub(super) fn stored(&self, value: Value) -> Result<Value, Error> {
        let value = self.kept(value)?;
        if holds(&value, 0, &is_shared) {
            let what =
                "a namespace or a loop cannot be an attribute of a namespace; store the values that you need";
            return Err(Error::new(ErrorKind::InvalidOperation, what));
        }
        Ok(value)
    }

    fn too_large(&self) -> Error {
        limit(format!("a list or map grows beyond {} bytes", self.longest.saturating_mul(LIST)))
    }

    fn measure(
        &self,
        value: &Value,
        depth: usize,
        size: &mut usize,
        deepest: &mut usize,
    ) -> Result<(), Error> {
        self.look()?;
        *deepest = depth.max(*deepest);
        *size = size.saturating_add(ITEM + value.as_str().map_or(0, str::len));
        if *size > self.longest.saturating_mul(LIST) {
            return Err(self.too_large());
        }
        let is_map = value.kind() == ValueKind::Map;
        if !is_map && !matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
            return Ok(());
        }
        if depth == DEEPEST {
            return Err(limit(format!("more than {DEEPEST} lists and maps in each other")));
        }
        for item in value.try_iter()?.checked() {
            let item = item?;
            self.measure(&item, depth + 1, size, deepest)?;
            if is_map {
                self.measure(&value.get_item(&item)?, depth + 1, size, deepest)?;
            }
        }
        Ok(())
    }

    /// The text of a value in its printed form.
    pub(super) fn printed(&self, value: &Value) -> Result<String, Error> {
        let mut bounded = Bounded { text: String::new(), longest: self.longest };
        write!(bounded, "{value}").map_err(|_| self.too_long())?;
        Ok(bounded.text)
    }

    /// Counts the parts of a text joined by another one.
    pub(super) fn joined(&self, joiner: &str, list: &Value) -> Result<(), Error> {
        // The filter or method says what is wrong with something that is no list.
        let Ok(items) = list.try_iter() else { return Ok(()) };
        let mut size = 0_usize;
        for item in items.checked() {
            self.look()?;
            let item = item?;
            let length = match item.as_str() {
                Some(text) => text.len(),
                None => self.printed(&item)?.len(),
            };
            size = size.saturating_add(length).saturating_add(joiner.len());
            if size.saturating_sub(joiner.len()) > self.longest {
                return Err(self.too_long());
            }
        }
        Ok(())
    }

    /// Counts a text in which parts are replaced.
    pub(super) fn replaced(
        &self,
        text: &str,
        old: &str,
        new: &str,
        most: Option<usize>,
    ) -> Result<(), Error> {
        let count = text.matches(old).take(most.unwrap_or(usize::MAX)).count();
        match text.len().saturating_add(count.saturating_mul(new.len())) > self.longest {
            true => Err(self.too_long()),
            false => Ok(()),
        }
    }

    /// Counts a text into which each of these places can insert the longest of some values.
    pub(super) fn repeated(&self, text: &str, places: usize, values: &[Value]) -> Result<(), Error> {
        let mut longest = 0;
        for value in values {
            longest = longest.max(match value.as_str() {
                Some(text) => text.len(),
                None => self.printed(value)?.len(),
            });
        }
        match text.len().saturating_add(places.saturating_mul(longest)) > self.longest {
            true => Err(self.too_long()),
            false => Ok(()),
        }
    }

    /// Counts lines, with an addition before or after each.
    pub(super) fn lines(&self, text: &str, count: usize, beside: usize) -> Result<(), Error> {
        match text.len().saturating_add(count.saturating_mul(beside)) > self.longest {
            true => Err(self.too_long()),
            false => Ok(()),
        }
    }

    /// Counts a value whose items get lines of their own, indented by that number of columns for each level.
    pub(super) fn indented(&self, value: &Value, columns: usize) -> Result<(), Error> {
        let (mut size, mut deepest) = (0, 0);
        self.measure(value, 0, &mut size, &mut deepest)?;
        match (size / ITEM).saturating_mul(deepest + 1).saturating_mul(columns) > self.longest {
            true => Err(self.too_long()),
            false => Ok(()),
        }
    }

    /// Computes `a ~ b`.
    pub(super) fn join(&self, state: &State, left: &Value, right: &Value) -> Result<Value, Error> {
        for value in [left, right].into_iter().filter(|value| value.is_undefined()) {
            StringInput::new(state, value)?;
        }
        let mut bounded = Bounded { text: String::new(), longest: self.longest };
        write!(bounded, "{left}{right}").map_err(|_| self.too_long())?;
        self.charge(bounded.text.len())?;
        Ok(Value::from(bounded.text))
    }

    /// Computes `a + b`.
    pub(super) fn plus(&self, state: &State, left: &Value, right: &Value) -> Result<Value, Error> {
        if let (Some(a), Some(b)) = (left.as_str(), right.as_str()) {
            self.text(a.len().saturating_add(b.len()))?;
            return Ok(Value::from([a, b].concat()));
        }
        let is_list = |value: &Value| matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable);
        if is_list(left) && is_list(right) && left.is_tuple() == right.is_tuple() {
            let mut items = Vec::new();
            for item in left.try_iter()?.checked().chain(right.try_iter()?.checked()) {
                self.look()?;
                items.push(item?);
            }
            let list = if left.is_tuple() { Value::from(Tuple::from(items)) } else { Value::from(items) };
            return self.kept(list);
        }
        number(state, "+", left, right, i128::checked_add, |a, b| a + b)
    }

    /// Computes `a * b`.
    pub(super) fn times(&self, state: &State, left: &Value, right: &Value) -> Result<Value, Error> {
        let is_repeated = |value: &Value| {
            value.as_str().is_some() || matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
        };
        let (repeated, count) = match (is_repeated(left), is_repeated(right)) {
            (true, _) => (left, right),
            (_, true) => (right, left),
            _ => return number(state, "*", left, right, i128::checked_mul, |a, b| a * b),
        };
        let Some(count) = count.as_usize() else {
            let what = if repeated.as_str().is_some() { "strings" } else { "sequences and iterables" };
            let what = format!("{what} can only be multiplied with integers");
            return Err(Error::new(ErrorKind::InvalidOperation, what));
        };
        if let Some(text) = repeated.as_str() {
            self.text(text.len().saturating_mul(count))?;
            return Ok(Value::from(text.repeat(count)));
        }
        let once = repeated.try_iter()?.checked().collect::<Result<Vec<_>, _>>()?;
        if once.len().saturating_mul(count).saturating_mul(ITEM) > self.longest.saturating_mul(LIST) {
            return Err(self.too_large());
        }
        let items: Vec<Value> = std::iter::repeat_n(once, count).flatten().collect();
        self.kept(if repeated.is_tuple() { Value::from(Tuple::from(items)) } else { Value::from(items) })
    }
}

fn limit(message: String) -> Error {
    own(TemplateErrorKind::Limit, message)
}

/// Computes a number like the engine.
fn number(
    state: &State,
    sign: &str,
    left: &Value,
    right: &Value,
    whole: impl Fn(i128, i128) -> Option<i128>,
    float: impl Fn(f64, f64) -> f64,
) -> Result<Value, Error> {
    for value in [left, right].into_iter().filter(|value| value.is_undefined()) {
        StringInput::new(state, value)?;
    }
    let is_number = |value: &Value| matches!(value.kind(), ValueKind::Number | ValueKind::Bool);
    let is_float = |value: &Value| value.is_number() && !value.is_integer();
    if !is_number(left) || !is_number(right) {
        let (left, right) = (left.kind(), right.kind());
        let what = format!("tried to use {sign} operator on unsupported types {left} and {right}");
        return Err(Error::new(ErrorKind::InvalidOperation, what));
    }
    if is_float(left) || is_float(right) {
        let float_of = |value: &Value| match i128::try_from(value.clone()) {
            // As the engine: a number that has no exact float becomes the nearest one.
            Ok(whole) if !is_float(value) => whole as f64,
            _ => f64::try_from(value.clone()).unwrap_or(f64::NAN),
        };
        return Ok(Value::from(float(float_of(left), float_of(right))));
    }
    let whole = i128::try_from(left.clone())
        .ok()
        .zip(i128::try_from(right.clone()).ok())
        .and_then(|(a, b)| whole(a, b));
    match whole {
        Some(result) => Ok(i64::try_from(result).map_or_else(|_| Value::from(result), Value::from)),
        None => {
            Err(Error::new(ErrorKind::InvalidOperation, format!("unable to calculate {left} {sign} {right}")))
        }
    }
}

/// Returns true if a value is, or contains, something other than plain data, such as a cycler.
pub(super) fn holds_objects(value: &Value) -> bool {
    holds(value, 0, &|value| value.kind() == ValueKind::Plain || is_shared(value))
}

/// Returns true if a value is an object of the engine that contains others and can be changed later.
fn is_shared(value: &Value) -> bool {
    value.as_object().is_some_and(|object| {
        let name = object.type_name();
        ["::Namespace", "::Loop", "::Module"].iter().any(|kind| name.ends_with(kind))
    })
}

/// Returns true if a value is, or contains, an object of that kind.
fn holds(value: &Value, depth: usize, is_object: &dyn Fn(&Value) -> bool) -> bool {
    if is_object(value) {
        return true;
    }
    let is_map = value.kind() == ValueKind::Map;
    if depth > DEEPEST || !(is_map || matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)) {
        return false;
    }
    let Ok(items) = value.try_iter() else { return false };
    items.checked().flatten().any(|item| {
        holds(&item, depth + 1, is_object)
            || (is_map && value.get_item(&item).is_ok_and(|inner| holds(&inner, depth + 1, is_object)))
    })
}

/// A text up to a length.
struct Bounded {
    text: String,
    longest: usize,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.text.len().saturating_add(text.len()) > self.longest {
            return Err(fmt::Error);
        }
        self.text.push_str(text);
        Ok(())
    }
}
