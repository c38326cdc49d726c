//! JSON of an event, borrowed from the event's text.
//!
//! A stream has many small events, and `serde_json`'s own value makes a hash table of every object and copies every
//! string. This one keeps the members of an object in a list and borrows the strings that have no escapes.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};
use std::{borrow::Cow, fmt};

/// A JSON value. Of members with the same name the last counts, as in [`Value`].
#[derive(Debug)]
pub(super) enum Json<'t> {
    Null,
    Flag(bool),
    Number(Number),
    Text(Cow<'t, str>),
    List(Vec<Json<'t>>),
    Object(Vec<(Cow<'t, str>, Json<'t>)>),
}

impl<'t> Json<'t> {
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        let Self::Object(members) = self else { return None };
        members.iter().rev().find(|(name, _)| name == key).map(|(_, member)| member)
    }

    /// The value at a pointer without escapes.
    pub(super) fn at(&self, pointer: &str) -> Option<&Self> {
        pointer.split('/').skip(1).try_fold(self, |value, key| match value {
            Self::List(items) => items.get(key.parse::<usize>().ok()?),
            value => value.get(key),
        })
    }

    /// The text at a pointer; empty if there is none.
    pub(super) fn text(&self, pointer: &str) -> &str {
        match self.at(pointer) {
            Some(Self::Text(text)) => text,
            _ => "",
        }
    }

    pub(super) fn count(&self, pointer: &str) -> Option<u64> {
        match self.at(pointer) {
            Some(Self::Number(number)) => number.as_u64(),
            _ => None,
        }
    }

    /// The items of the list with this key; none if there is no list.
    pub(super) fn items(&self, key: &str) -> &[Self] {
        match self.get(key) {
            Some(Self::List(items)) => items,
            _ => &[],
        }
    }

    /// A member that is there and is not null.
    pub(super) fn present(&self, key: &str) -> Option<&Self> {
        self.get(key).filter(|value| !matches!(value, Self::Null))
    }
}

impl From<&Json<'_>> for Value {
    fn from(json: &Json<'_>) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Flag(flag) => Self::Bool(*flag),
            Json::Number(number) => Self::Number(number.clone()),
            Json::Text(text) => Self::String(text.clone().into_owned()),
            Json::List(items) => items.iter().map(Self::from).collect(),
            Json::Object(members) => {
                members.iter().map(|(name, member)| (name.clone().into_owned(), Self::from(member))).collect()
            }
        }
    }
}

impl<'t> From<&'t Value> for Json<'t> {
    fn from(value: &'t Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(flag) => Self::Flag(*flag),
            Value::Number(number) => Self::Number(number.clone()),
            Value::String(text) => Self::Text(text.as_str().into()),
            Value::Array(items) => Self::List(items.iter().map(Self::from).collect()),
            Value::Object(members) => Self::Object(
                members.iter().map(|(name, member)| (name.as_str().into(), Self::from(member))).collect(),
            ),
        }
    }
}

impl<'de> Deserialize<'de> for Json<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reading)
    }
}

/// The name of a member, borrowed where it has no escapes.
struct Name<'t>(Cow<'t, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.deserialize_str(Reading)? {
            Json::Text(name) => Ok(Self(name)),
            _ => Err(D::Error::custom("a name is expected")),
        }
    }
}

struct Reading;

impl<'de> Visitor<'de> for Reading {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json<'de>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Json<'de>, E> {
        Ok(Json::Flag(flag))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Json<'de>, E> {
        Ok(Json::Number(number.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Json<'de>, E> {
        Ok(Json::Number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Json<'de>, E> {
        Ok(Number::from_f64(number).map_or(Json::Null, Json::Number))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Json<'de>, E> {
        Ok(Json::Text(text.into()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json<'de>, E> {
        Ok(Json::Text(text.to_owned().into()))
    }

    fn visit_string<E>(self, text: String) -> Result<Json<'de>, E> {
        Ok(Json::Text(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json<'de>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json<'de>, A::Error> {
        let mut object = Vec::new();
        while let Some((Name(name), member)) = members.next_entry()? {
            object.push((name, member));
        }
        Ok(Json::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn it_reads_what_a_value_reads() {
        for text in [
            r#"{"a": [1, -2, 3.5, true, null, "x\n\u00e9"], "b": {"c": {}}, "a\t": "", "n": 18446744073709551615}"#,
            r#"{"twice": 1, "twice": [2]}"#,
            r#""text""#,
            "[]",
        ] {
            let value: Value = serde_json::from_str(text).unwrap();
            let json: Json<'_> = serde_json::from_str(text).unwrap();
            assert_eq!(Value::from(&json), value, "{text}");
            assert_eq!(Value::from(&Json::from(&value)), value, "{text}");
        }
        assert!(serde_json::from_str::<Json<'_>>(r#"{"a": 1"#).is_err());
    }

    #[test]
    fn pointers_reach_into_lists_and_the_last_of_two_members_counts() {
        let text = r#"{"choices": [{"delta": {"content": "a\"b"}}], "n": 1, "n": 2}"#;
        let json: Json<'_> = serde_json::from_str(text).unwrap();
        assert_eq!(json.text("/choices/0/delta/content"), "a\"b");
        assert_eq!(json.text("/choices/1/delta/content"), "");
        assert_eq!(json.count("/n"), Some(2));
        assert_eq!(json.items("choices").len(), 1);
        assert_eq!(Value::from(&json)["n"], json!(2));
    }
}
