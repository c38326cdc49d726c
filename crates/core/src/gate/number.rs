//! Comparison of JSON values: by type, and numbers by value.

use serde_json::{Number, Value};
use std::cmp::Ordering;

/// Returns true if two values are equal: `1` and `1.0` are, `1` and `"1"` are not. The order of keys has no meaning.
pub(super) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare(a, b) == Some(Ordering::Equal),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        _ => a == b,
    }
}

/// Returns true if two values have the same JSON type.
pub(super) fn same_type(a: &Value, b: &Value) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}

/// Returns true if a value is a text, a number or a boolean.
pub(super) fn is_scalar(value: &Value) -> bool {
    matches!(value, Value::String(_) | Value::Number(_) | Value::Bool(_))
}

/// Compares two numbers by their exact values.
pub(super) fn compare(a: &Number, b: &Number) -> Option<Ordering> {
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        (None, None) => a.as_f64()?.partial_cmp(&b.as_f64()?),
        (Some(a), None) => whole_with_float(a, b.as_f64()?),
        (None, Some(b)) => whole_with_float(b, a.as_f64()?).map(Ordering::reverse),
    }
}

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

/// Compares without rounding the whole number to a float.
fn whole_with_float(whole: i128, float: f64) -> Option<Ordering> {
    // Whole JSON numbers fit 65 bits.
    const BEYOND: f64 = 4e19;
    if float.is_nan() {
        return None;
    }
    if float >= BEYOND {
        return Some(Ordering::Less);
    }
    if float <= -BEYOND {
        return Some(Ordering::Greater);
    }
    let floor = float.floor();
    #[allow(clippy::cast_possible_truncation, reason = "the float is whole and within the range")]
    let ordering = whole.cmp(&(floor as i128));
    // A fraction above its floor is greater than it.
    Some(if ordering == Ordering::Equal && float > floor { Ordering::Less } else { ordering })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_equal_by_value_and_nothing_else_is_converted() {
        assert!(equal(&json!(1), &json!(1.0)));
        assert!(equal(&json!([{"a": 1, "b": 2}]), &json!([{"b": 2.0, "a": 1}])));
        for (a, b) in [
            (json!(1), json!("1")),
            (json!(true), json!(1)),
            (json!(null), json!(false)),
            (json!([1]), json!(1)),
            (json!({"a": 1}), json!({"a": 1, "b": null})),
        ] {
            assert!(!equal(&a, &b), "{a} {b}");
        }
    }

    #[test]
    fn large_numbers_are_not_rounded() {
        let order = |a: Value, b: Value| match (a, b) {
            (Value::Number(a), Value::Number(b)) => compare(&a, &b),
            _ => None,
        };
        assert_eq!(
            order(json!(9_007_199_254_740_993_i64), json!(9_007_199_254_740_992.0)),
            Some(Ordering::Greater)
        );
        assert_eq!(order(json!(u64::MAX), json!(1e300)), Some(Ordering::Less));
        assert_eq!(order(json!(-1e300), json!(i64::MIN)), Some(Ordering::Less));
        assert_eq!(order(json!(500.5), json!(500)), Some(Ordering::Greater));
        assert_eq!(order(json!(-1), json!(-0.5)), Some(Ordering::Less));
    }
}
