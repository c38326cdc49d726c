//! Percentages and conversions in `'{:.1%} {!r}'.format(…)`, which the engine's formats lack.

use super::print::repr;
use minijinja::formatting::{FormatStyle, format};
use minijinja::value::{Kwargs, Rest, from_args};
use minijinja::{Error, Value};

/// The specification of a field: `[[fill]align][sign][0][width][,][.precision]`.
struct Specification<'t> {
    fill: char,
    align: Option<char>,
    /// Sign, separator and precision: the format of the number itself.
    sign: &'t str,
    zeros: bool,
    width: usize,
    separator: &'t str,
    precision: &'t str,
}

/// The format and its arguments without percentages and conversions: the text of each replaces its field. `None` if
/// there are none, or if the engine has to report an error.
pub(super) fn without(text: &str, arguments: &[Value]) -> Result<Option<(String, Vec<Value>)>, Error> {
    if !text.contains("%}") && !text.contains('!') {
        return Ok(None);
    }
    let (positional, named): (Rest<Value>, Kwargs) = from_args(arguments)?;
    let (mut written, mut rest) = (String::with_capacity(text.len()), text);
    let (mut next, mut found) = (0_usize, false);
    while let Some(at) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at(at);
        written.push_str(before);
        if from.starts_with("{{") || from.starts_with("}}") {
            written.push_str(&from[..2]);
            rest = &from[2..];
            continue;
        }
        let Some((field, after)) = from.strip_prefix('{').and_then(|inner| inner.split_once('}')) else {
            return Ok(None);
        };
        let (name, specification) = field.split_once(':').unwrap_or((field, ""));
        let (name, conversion) = name.split_once('!').unwrap_or((name, ""));
        let numbered = match name {
            "" => {
                next += 1;
                (next - 1).to_string()
            }
            name => name.to_owned(),
        };
        let value = match numbered.parse::<usize>() {
            Ok(index) => positional.get(index).cloned(),
            Err(_) => named.get::<Option<Value>>(&numbered)?,
        };
        let percentage = specification.strip_suffix('%').and_then(Specification::read);
        let formatted = match (percentage, conversion, value) {
            (Some(specification), "", Some(value)) => Some(specification.percentage(&value)?),
            (None, "r" | "s" | "a", Some(value)) => {
                let text = if conversion == "s" { value.to_string() } else { repr(&value) };
                let form = format!("{{:{specification}}}");
                Some(format(FormatStyle::StrFormat, &form, &[Value::from(text)])?)
            }
            (_, "", _) => None,
            _ => return Ok(None),
        };
        match formatted {
            Some(formatted) => {
                found = true;
                // A part of the value must not be read as a field.
                written.push_str(&formatted.replace('{', "{{").replace('}', "}}"));
            }
            None => {
                let colon = if field.contains(':') { ":" } else { "" };
                written.push_str(&format!("{{{numbered}{colon}{specification}}}"));
            }
        }
        rest = after;
    }
    written.push_str(rest);
    Ok(found.then(|| (written, arguments.to_vec())))
}

impl<'t> Specification<'t> {
    fn read(text: &'t str) -> Option<Self> {
        let mut characters = text.chars();
        let (first, second) = (characters.next(), characters.next());
        let is_align = |align: Option<char>| align.filter(|align| "<>^=".contains(*align));
        let (fill, align, rest) = match (first, is_align(second), is_align(first)) {
            (Some(fill), Some(align), _) => (fill, Some(align), &text[fill.len_utf8() + 1..]),
            (_, None, Some(align)) => (' ', Some(align), &text[1..]),
            _ => (' ', None, text),
        };
        let (sign, rest) = rest.split_at(usize::from(rest.starts_with(['+', '-', ' '])));
        let zeros = rest.starts_with('0');
        let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (width, rest) = rest.split_at(digits(rest));
        let (separator, precision) = rest.split_at(usize::from(rest.starts_with([',', '_'])));
        let is_precision = precision.is_empty()
            || precision
                .strip_prefix('.')
                .is_some_and(|number| !number.is_empty() && digits(number) == number.len());
        let width = if width.is_empty() { 0 } else { width.parse().ok()? };
        is_precision.then_some(Self { fill, align, sign, zeros, width, separator, precision })
    }

    fn percentage(&self, value: &Value) -> Result<String, Error> {
        let hundredfold = Value::from(f64::try_from(value.clone())? * 100.0);
        let Self { sign, separator, precision, .. } = self;
        let number =
            format(FormatStyle::StrFormat, &format!("{{:{sign}{separator}{precision}f}}"), &[hundredfold])?;
        let number = number + "%";
        let missing = self.width.saturating_sub(number.chars().count());
        let (fill, align) = match self.align {
            Some(align) => (self.fill, align),
            None if self.zeros => ('0', '='),
            None => (' ', '>'),
        };
        let left = match align {
            '<' => 0,
            '^' => missing / 2,
            _ => missing,
        };
        let fill = |count: usize| fill.to_string().repeat(count);
        let digits = usize::from(align == '=' && number.starts_with(['+', '-', ' ']));
        let (sign, digits) = number.split_at(digits);
        Ok(format!("{sign}{}{digits}{}", fill(left), fill(missing - left)))
    }
}
