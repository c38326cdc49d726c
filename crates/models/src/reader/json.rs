//! JSON of an event, borrowed from the event's text.
//!
//! A stream has many small events, and `serde_json`'s own value makes a hash table of every object and copies every
//! string. This one keeps the members of an object in a list and borrows the strings that have no escapes.

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
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

/// The room for the members of an object. Few objects of an event have more.
const MEMBERS: usize = 8;

impl<'t> Json<'t> {
    /// Reads a text. Of an object only the members with these names are kept, since most of an event is not needed.
    pub(super) fn with_members(text: &'t str, names: &[&str]) -> serde_json::Result<Self> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let json = Reading { names: Some(names) }.deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(json)
    }

    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        let Self::Object(members) = self else { return None };
        members.iter().rev().find(|(name, _)| name == key).map(|(_, member)| member)
    }

    /// The member of a member.
    pub(super) fn below(&self, key: &str, inner: &str) -> Option<&Self> {
        self.get(key)?.get(inner)
    }

    /// The text with this key; empty if there is none.
    pub(super) fn text(&self, key: &str) -> &str {
        self.get(key).and_then(Self::as_text).unwrap_or_default()
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn count(&self, key: &str) -> Option<u64> {
        self.get(key)?.as_count()
    }

    pub(super) fn as_count(&self) -> Option<u64> {
        match self {
            Self::Number(number) => number.as_u64(),
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
        Reading { names: None }.deserialize(deserializer)
    }
}

/// The name of a member, borrowed where it has no escapes.
struct Name<'t>(Cow<'t, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.deserialize_str(Reading { names: None })? {
            Json::Text(name) => Ok(Self(name)),
            _ => Err(D::Error::custom("a name is expected")),
        }
    }
}

struct Reading<'n> {
    /// The names of the members to keep, if not all are.
    names: Option<&'n [&'n str]>,
}

impl<'de> DeserializeSeed<'de> for Reading<'_> {
    type Value = Json<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reading<'_> {
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
        let mut object = Vec::with_capacity(MEMBERS);
        while let Some(Name(name)) = members.next_key()? {
            if self.names.is_none_or(|names| names.contains(&&*name)) {
                object.push((name, members.next_value()?));
            } else {
                members.next_value::<IgnoredAny>()?;
            }
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
    fn the_last_of_two_members_counts() {
        let text = r#"{"choices": [{"delta": {"content": "a\"b"}}], "n": 1, "n": 2}"#;
        let json: Json<'_> = serde_json::from_str(text).unwrap();
        assert_eq!(json.items("choices").len(), 1);
        let content = json.items("choices")[0].below("delta", "content");
        assert_eq!(content.and_then(Json::as_text), Some("a\"b"));
        assert_eq!(json.text("content"), "");
        assert_eq!(json.count("n"), Some(2));
        assert_eq!(Value::from(&json)["n"], json!(2));
    }

    #[test]
    fn only_the_members_of_these_names_are_kept() {
        let read = |text| Json::with_members(text, &["a", "b"]).map(|json| Value::from(&json));
        let text = r#"{"x": {"a": [1, "\u00e9"]}, "a": {"x": 1, "a": 2}, "b\u0020": 3, "b": null} "#;
        assert_eq!(read(text).unwrap(), json!({"a": {"x": 1, "a": 2}, "b": null}));
        assert_eq!(read("[{\"x\": 1}]").unwrap(), json!([{"x": 1}]));
        assert_eq!(read("7").unwrap(), json!(7));
        for bad in [r#"{"x": [1}"#, r#"{"a": 1"#, r#"{"a": 1} {}"#, ""] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
