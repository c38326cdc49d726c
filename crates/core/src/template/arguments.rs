//! The arguments of a filter.

use minijinja::value::Kwargs;
use minijinja::{Error, ErrorKind, Value};

/// Converts the arguments of a filter, each by position or by name as in the Python library, to named ones.
pub(super) fn arguments(names: &[&str], positional: &[Value], named: &Kwargs) -> Result<Kwargs, Error> {
    if positional.len() > names.len() {
        return Err(Error::from(ErrorKind::TooManyArguments));
    }
    let mut given: Vec<(String, Value)> =
        names.iter().zip(positional).map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    for name in named.args() {
        if given.iter().any(|(known, _)| known == name) || !names.contains(&name) {
            return Err(Error::new(ErrorKind::TooManyArguments, format!("unexpected argument `{name}`")));
        }
        given.push((name.to_owned(), named.get(name)?));
    }
    Ok(Kwargs::from_iter(given))
}
