//! Reads the members of an event that are needed, and skips the others.
//!
//! A stream has many small events. [`Value`] makes a hash table of every object and copies every string. The types of
//! this module take their members while the text is read, and borrow strings that have no escapes.
//!
//! Servers differ, so reading is loose: a member of an unexpected form counts as absent, and of members with the same
//! name the last counts, as in [`Value`].

use serde::de::{
    Deserialize as _, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
    value::{MapAccessDeserializer, SeqAccessDeserializer},
};
use serde_json::{Number, Value};
use std::{borrow::Cow, fmt, mem};

/// A value that is read in its place, from the forms of JSON that it expects. All other forms make it the default.
pub(super) trait Loose<'t>: Default {
    fn text(&mut self, _: Cow<'t, str>) {
        *self = Self::default();
    }

    fn number(&mut self, _: Number) {
        *self = Self::default();
    }

    fn flag(&mut self, _: bool) {
        *self = Self::default();
    }

    fn list<A: SeqAccess<'t>>(&mut self, mut items: A) -> Result<(), A::Error> {
        *self = Self::default();
        pass_over(&mut items)
    }

    fn object<A: MapAccess<'t>>(&mut self, mut members: A) -> Result<(), A::Error> {
        *self = Self::default();
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

/// An object whose members are taken one by one. Without any it is the default.
pub(super) trait Members<'t>: Default {
    /// Takes the value of the member with that name, by [`member`] or [`skip`].
    fn take<A: MapAccess<'t>>(&mut self, name: &str, members: &mut A) -> Result<(), A::Error>;
}

/// Implements [`Members`] for a struct: the listed fields are read from the members of the same names.
macro_rules! members {
    ($type:ident $(<$life:lifetime>)?: $($field:ident),+) => {
        impl<'t> $crate::reader::loose::Members<'t> for $type $(<$life>)? {
            fn take<A: serde::de::MapAccess<'t>>(&mut self, name: &str, members: &mut A) -> Result<(), A::Error> {
                match name {
                    $(stringify!($field) => $crate::reader::loose::member(members, &mut self.$field),)+
                    _ => $crate::reader::loose::skip(members),
                }
            }
        }
    };
}
pub(super) use members;

/// Reads the value of a member.
pub(super) fn member<'t, T: Loose<'t>, A: MapAccess<'t>>(
    members: &mut A,
    value: &mut T,
) -> Result<(), A::Error> {
    members.next_value_seed(Reading(value))
}

/// Passes over the value of a member.
pub(super) fn skip<'t, A: MapAccess<'t>>(members: &mut A) -> Result<(), A::Error> {
    members.next_value::<IgnoredAny>().map(drop)
}

/// Reads a whole text.
///
/// # Errors
///
/// The text is no JSON.
pub(super) fn from_text<'t, T: Loose<'t>>(text: &'t str) -> serde_json::Result<T> {
    let mut read = T::default();
    let mut deserializer = serde_json::Deserializer::from_str(text);
    Reading(&mut read).deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(read)
}

/// Reads a value.
///
/// # Errors
///
/// The value can't be read. Reading itself makes no errors.
pub(super) fn from_value<'t, T: Loose<'t>>(value: &'t Value) -> serde_json::Result<T> {
    let mut read = T::default();
    Reading(&mut read).deserialize(value)?;
    Ok(read)
}

/// Passes over the items that are left.
fn pass_over<'t, A: SeqAccess<'t>>(items: &mut A) -> Result<(), A::Error> {
    while items.next_element::<IgnoredAny>()?.is_some() {}
    Ok(())
}

impl<'t> Loose<'t> for Cow<'t, str> {
    fn text(&mut self, text: Cow<'t, str>) {
        *self = text;
    }
}

impl Loose<'_> for Option<u64> {
    fn number(&mut self, number: Number) {
        *self = number.as_u64();
    }
}

impl<'t, T: Members<'t>> Loose<'t> for T {
    fn object<A: MapAccess<'t>>(&mut self, mut members: A) -> Result<(), A::Error> {
        *self = T::default();
        let mut name = Cow::default();
        while members.next_key_seed(Reading(&mut name))?.is_some() {
            self.take(&name, &mut members)?;
        }
        Ok(())
    }
}

/// An object that is there.
impl<'t, T: Members<'t>> Loose<'t> for Option<T> {
    fn object<A: MapAccess<'t>>(&mut self, members: A) -> Result<(), A::Error> {
        self.insert(T::default()).object(members)
    }
}

impl<'t, T: Loose<'t>> Loose<'t> for Vec<T> {
    fn list<A: SeqAccess<'t>>(&mut self, mut items: A) -> Result<(), A::Error> {
        self.clear();
        let mut item = T::default();
        while items.next_element_seed(Reading(&mut item))?.is_some() {
            self.push(mem::take(&mut item));
        }
        Ok(())
    }
}

/// The first item of a list, if it has one.
#[derive(Debug)]
pub(super) struct First<T>(pub(super) Option<T>);

impl<T> Default for First<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'t, T: Loose<'t>> Loose<'t> for First<T> {
    fn list<A: SeqAccess<'t>>(&mut self, mut items: A) -> Result<(), A::Error> {
        if items.next_element_seed(Reading(self.0.insert(T::default())))?.is_some() {
            return pass_over(&mut items);
        }
        self.0 = None;
        Ok(())
    }
}

impl<'t> Loose<'t> for Value {
    fn text(&mut self, text: Cow<'t, str>) {
        *self = Self::String(text.into_owned());
    }

    fn number(&mut self, number: Number) {
        *self = Self::Number(number);
    }

    fn flag(&mut self, flag: bool) {
        *self = Self::Bool(flag);
    }

    fn list<A: SeqAccess<'t>>(&mut self, items: A) -> Result<(), A::Error> {
        *self = Self::deserialize(SeqAccessDeserializer::new(items))?;
        Ok(())
    }

    fn object<A: MapAccess<'t>>(&mut self, members: A) -> Result<(), A::Error> {
        *self = Self::deserialize(MapAccessDeserializer::new(members))?;
        Ok(())
    }
}

/// Reads a value in its place: values are moved no more than once on their way.
struct Reading<'p, T>(&'p mut T);

impl<'t, T: Loose<'t>> DeserializeSeed<'t> for Reading<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'t>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'t, T: Loose<'t>> Visitor<'t> for Reading<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        *self.0 = T::default();
        Ok(())
    }

    fn visit_bool<E>(self, flag: bool) -> Result<(), E> {
        self.0.flag(flag);
        Ok(())
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.0.number(number.into());
        Ok(())
    }

    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.0.number(number.into());
        Ok(())
    }

    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        match Number::from_f64(number) {
            Some(number) => self.0.number(number),
            None => *self.0 = T::default(),
        }
        Ok(())
    }

    fn visit_borrowed_str<E>(self, text: &'t str) -> Result<(), E> {
        self.0.text(Cow::Borrowed(text));
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.0.text(Cow::Owned(text.to_owned()));
        Ok(())
    }

    fn visit_string<E>(self, text: String) -> Result<(), E> {
        self.0.text(Cow::Owned(text));
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'t>>(self, items: A) -> Result<(), A::Error> {
        self.0.list(items)
    }

    fn visit_map<A: MapAccess<'t>>(self, members: A) -> Result<(), A::Error> {
        self.0.object(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Debug, Default, PartialEq)]
    struct Piece<'t> {
        text: Cow<'t, str>,
        count: Option<u64>,
        pieces: Vec<Piece<'t>>,
        inner: Option<Inner>,
        rest: Value,
    }

    #[derive(Debug, Default, PartialEq)]
    struct Inner {
        count: Option<u64>,
    }

    members!(Piece<'t>: text, count, pieces, inner, rest);
    members!(Inner: count);

    fn piece(text: &str) -> Piece<'_> {
        Piece { text: text.into(), ..Piece::default() }
    }

    /// Reads the text. The result is the same from the text and from its value.
    fn read(text: &str) -> Piece<'_> {
        let piece: Piece<'_> = from_text(text).unwrap();
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(from_value::<Piece<'_>>(&value).unwrap(), piece, "{text}");
        piece
    }

    #[test]
    fn members_are_read_wherever_they_stand() {
        let text = r#"{"x": {"text": [1]}, "text": "a\"\u00e9", "pieces": [{"text": "b"}, {}], "inner": {"count": 7}} "#;
        let inner = Some(Inner { count: Some(7) });
        assert_eq!(read(text), Piece { pieces: vec![piece("b"), piece("")], inner, ..piece("a\"é") });
        assert!(matches!(read(r#"{"text": "borrowed"}"#).text, Cow::Borrowed(_)));
    }

    #[test]
    fn the_last_of_two_members_counts() {
        let text = r#"{"text": "a", "pieces": [{"text": "b"}], "text": "c", "pieces": [], "count": 1, "count": null}"#;
        assert_eq!(read(text), piece("c"));
    }

    #[test]
    fn a_member_of_another_form_counts_as_absent() {
        for other in ["null", "true", "-1", "1.5", "[1, {}]", r#"{"text": "a"}"#] {
            assert_eq!(read(&format!(r#"{{"text": {other}, "count": {other}}}"#)), piece(""), "{other}");
        }
        for other in ["null", "true", "1", r#""text""#] {
            assert_eq!(read(&format!(r#"{{"pieces": {other}, "inner": {other}}}"#)), piece(""), "{other}");
            assert_eq!(read(other), piece(""), "{other}");
        }
        assert_eq!(read(r#"{"pieces": [1, {"text": "a"}]}"#).pieces, [piece(""), piece("a")]);
    }

    #[test]
    fn any_value_is_kept_as_it_is() {
        for text in [
            r#"{"a": [1, -2, 3.5, true, null, "x\n\u00e9"], "b": {"c": {}}, "a\t": ""}"#,
            "18446744073709551615",
            "-1",
            "2.5",
            "false",
            "null",
            r#""text""#,
            "[]",
        ] {
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(read(&format!(r#"{{"rest": {text}}}"#)).rest, value, "{text}");
        }
    }

    #[test]
    fn the_first_item_of_a_list_is_read() {
        let first = |text| from_text::<First<Piece<'_>>>(text).unwrap().0;
        assert_eq!(first(r#"[{"text": "a"}, {"text": "b"}, 7]"#), Some(piece("a")));
        assert_eq!(first("[null, 7]"), Some(piece("")));
        assert_eq!(first("[]"), None);
        assert_eq!(first(r#"{"text": "a"}"#), None);
        assert_eq!(from_value::<First<Value>>(&json!([{"a": 1}, 2])).unwrap().0, Some(json!({"a": 1})));
    }

    #[test]
    fn text_that_is_no_json_is_refused() {
        for bad in [r#"{"x": [1}"#, r#"{"text": "a""#, r#"{"text": "a"} {}"#, r#"{"pieces": [{]}"#, "[1", ""]
        {
            assert!(from_text::<Piece<'_>>(bad).is_err(), "{bad}");
        }
    }
}
