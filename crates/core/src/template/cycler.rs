//! `cycler(…)`: values in turn, over several loops.

use minijinja::value::{Enumerator, Object, ObjectRepr, Rest, from_args};
use minijinja::{Error, ErrorKind, State, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug)]
struct Cycler {
    values: Vec<Value>,
    position: AtomicUsize,
}

/// Makes a cycler of these values.
pub(super) fn cycler(values: Rest<Value>) -> Result<Value, Error> {
    if values.is_empty() {
        return Err(Error::new(ErrorKind::InvalidOperation, "at least one value is needed"));
    }
    Ok(Value::from_object(Cycler { values: values.to_vec(), position: AtomicUsize::new(0) }))
}

impl Cycler {
    fn current(&self) -> &Value {
        &self.values[self.position.load(Ordering::Relaxed) % self.values.len()]
    }
}

impl Object for Cycler {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::NonEnumerable
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        (key.as_str() == Some("current")).then(|| self.current().clone())
    }

    fn call_method(
        self: &Arc<Self>,
        _state: &mut State<'_, '_>,
        method: &str,
        arguments: &[Value],
    ) -> Result<Value, Error> {
        let () = from_args(arguments)?;
        match method {
            "next" | "__next__" => {
                let value = self.current().clone();
                self.position.fetch_add(1, Ordering::Relaxed);
                Ok(value)
            }
            "reset" => {
                self.position.store(0, Ordering::Relaxed);
                Ok(Value::from(()))
            }
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }
}
