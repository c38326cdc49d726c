//! Limits on numbers that determine the size of a text or list. The engine would fill a gigabyte for
//! `'%1000000000d'`.

use minijinja::{Error, ErrorKind, Value};

/// Maximum width of padded, indented or wrapped text, and maximum length of a filled list.
const WIDEST: usize = 10_000;

/// The width, if it is within the limit.
pub(super) fn width(width: usize) -> Result<usize, Error> {
    if width > WIDEST {
        return Err(Error::new(ErrorKind::InvalidOperation, format!("a width is at most {WIDEST}")));
    }
    Ok(width)
}

/// Checks the widths in a format, `%20s` or (with `braces`) `{:>20}`, and in the arguments if these give the width.
pub(super) fn check_format(format: &str, braces: bool, arguments: &[Value]) -> Result<(), Error> {
    let mut from_arguments = false;
    for (start, _) in format.match_indices(if braces { '{' } else { '%' }) {
        let rest = &format[start + 1..];
        let specification = if braces {
            rest.split('}')
                .next()
                .and_then(|field| field.split_once(':'))
                .map_or("", |(_, specification)| specification)
        } else {
            let rest =
                rest.strip_prefix('(').and_then(|key| key.split_once(')')).map_or(rest, |(_, rest)| rest);
            rest.split(|letter: char| letter.is_alphabetic() || letter == '%').next().unwrap_or_default()
        };
        from_arguments |= specification.contains(if braces { '{' } else { '*' });
        for digits in
            specification.split(|letter: char| !letter.is_ascii_digit()).filter(|part| !part.is_empty())
        {
            width(digits.parse().unwrap_or(usize::MAX))?;
        }
    }
    if from_arguments {
        for number in arguments.iter().filter_map(Value::as_i64) {
            width(usize::try_from(number.unsigned_abs()).unwrap_or(usize::MAX))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_no_widths_may_be_large() {
        let large = [Value::from(1_000_000)];
        assert!(check_format("order 123456: %s of 99999999", false, &large).is_ok());
        assert!(check_format("%d%% of 100000", false, &large).is_ok());
        assert!(check_format("order 123456: {} {:>10} {0:,}", true, &large).is_ok());
    }

    #[test]
    fn widths_and_precisions_are_bounded() {
        let large = [Value::from(1_000_000), Value::from("x")];
        for format in ["%1000000d", "%-1000000s", "%.1000000f", "%(key)99999999999999999999d", "%*d"] {
            assert!(check_format(format, false, &large).is_err(), "{format}");
        }
        for format in ["{:1000000}", "{x:>1000000}", "{:.1000000f}", "{:{}}"] {
            assert!(check_format(format, true, &large).is_err(), "{format}");
        }
    }
}
