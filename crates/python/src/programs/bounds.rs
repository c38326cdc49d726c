//! Bounds of the number of elements of values in a program, as far as the code shows them.

use super::{check::limit_of, language::Dialect, tree::Node};
use llm_do_core::worker::Language;
use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
};

/// Deepest nesting that one bound is followed through, names included.
const DEEPEST: u32 = 200;

/// Greatest number of values that one bound looks at. Names that hold each other several times would otherwise multiply.
const MOST_VALUES: u32 = 2_000;

/// The values of the names of a function that are set once and never grow.
pub(super) struct Known<'k, 'a> {
    language: Language,
    values: BTreeMap<&'a str, Node<'a>>,
    /// The names that the function sets, with its parameters. It knows those of the top level that it does not set.
    own: BTreeSet<&'a str>,
    top: Option<&'k Known<'k, 'a>>,
    /// The values that the current bound may still look at.
    left: Cell<u32>,
}

impl<'k, 'a> Known<'k, 'a> {
    /// Finds the names in a function with these parameters, or in the top level of a program.
    pub(super) fn of(
        dialect: &Dialect,
        body: impl Iterator<Item = Node<'a>>,
        parameters: &[&'a str],
        top: Option<&'k Known<'k, 'a>>,
    ) -> Self {
        let mut bound: BTreeMap<&str, u32> = parameters.iter().map(|name| (*name, 2)).collect();
        let mut values = BTreeMap::new();
        let mut bind = |target: Node<'a>, times: u32| {
            target.walk(&mut |node| {
                if let Some(name) = node.name() {
                    *bound.entry(name).or_default() += times;
                }
            });
        };
        for statement in body {
            statement.walk(&mut |node| match node.kind() {
                "Assign" => {
                    let targets: Vec<Node<'a>> = node.all("targets").collect();
                    targets.iter().for_each(|target| bind(*target, 1));
                    if let ([target], Some(value)) = (targets.as_slice(), node.one("value"))
                        && let Some(name) = target.name()
                    {
                        values.insert(name, value);
                    }
                }
                // Each other way to set a name: its value is not known.
                "AugAssign" | "AnnAssign" | "NamedExpr" | "For" | "comprehension" | "Catch" => {
                    node.all("target").for_each(|target| bind(target, 2));
                }
                "withitem" => node.all("optional_vars").for_each(|target| bind(target, 2)),
                "Call" => {
                    let method = node.one("func").filter(|function| function.kind() == "Attribute");
                    if let Some(method) = method
                        && method.text("attr").is_some_and(|name| dialect.growing.contains(&name))
                        && let Some(value) = method.one("value")
                    {
                        bind(value, 2);
                    }
                }
                _ => {}
            });
        }
        values.retain(|name, _| bound.get(name) == Some(&1));
        let own = bound.into_keys().collect();
        Self { language: dialect.language, values, own, top, left: Cell::new(0) }
    }

    /// The greatest number of elements of a value; `None` if it is not known.
    pub(super) fn bound(&self, value: Node<'a>) -> Option<u64> {
        self.left.set(MOST_VALUES);
        self.bound_within(value, DEEPEST)
    }

    /// The value of a name that is set once.
    fn value(&self, name: &str) -> Option<Node<'a>> {
        match (self.values.get(name), self.top) {
            (Some(value), _) => Some(*value),
            (None, Some(top)) if !self.own.contains(name) => top.value(name),
            _ => None,
        }
    }

    fn bound_within(&self, value: Node<'a>, deepest: u32) -> Option<u64> {
        self.left.set(self.left.get().checked_sub(1)?);
        let deeper = deepest.checked_sub(1)?;
        let of = |node: Node<'a>| self.bound_within(node, deeper);
        match value.kind() {
            "List" | "Tuple" | "Set" => {
                let (parts, single): (Vec<_>, Vec<_>) =
                    value.all("elts").partition(|element| element.kind() == "Starred");
                let single = single.len() as u64;
                parts.into_iter().try_fold(single, |sum, part| sum.checked_add(of(part.one("value")?)?))
            }
            "Dict" => {
                let keys: Vec<Option<Node<'a>>> = value.elements("keys").collect();
                // In TypeScript, a key that is computed may say how the object is iterated.
                let is_plain = |key: &Option<Node<'a>>| match self.language {
                    Language::Python => key.is_some(),
                    Language::Script => key.is_some_and(|key| key.literal().is_some()),
                };
                keys.iter().all(is_plain).then_some(keys.len() as u64)
            }
            "Constant" => value.literal().map(|text| text.chars().count() as u64),
            "Name" => of(self.value(value.name()?)?),
            "Await" => of(value.one("value")?),
            "Subscript" => slice_bound(value.one("slice")?),
            "IfExp" => Some(of(value.one("body")?)?.max(of(value.one("orelse")?)?)),
            "BoolOp" => value.all("values").map(of).try_fold(0, |most, bound| Some(bound?.max(most))),
            "BinOp" if value.one("op")?.kind() == "Add" => {
                of(value.one("left")?)?.checked_add(of(value.one("right")?)?)
            }
            "ListComp" | "SetComp" | "GeneratorExp" | "DictComp" => self.rounds_within(value, deeper),
            "Counted" => self.counted(value, deeper),
            "New" => match (value.one("func")?.name()?, value.all("args").next()) {
                ("Set" | "Map", Some(items)) => of(items),
                ("Set" | "Map", None) => Some(0),
                _ => None,
            },
            "Call" => match self.language {
                Language::Python => self.bound_of_call(value, deeper),
                Language::Script => self.bound_of_method(value, deeper),
            },
            _ => None,
        }
    }

    fn bound_of_call(&self, call: Node<'a>, deepest: u32) -> Option<u64> {
        let of = |node: Node<'a>| self.bound_within(node, deepest);
        let function = call.one("func")?;
        let arguments: Vec<Node<'a>> = call.all("args").collect();
        if function.kind() == "Attribute" {
            return match (function.one("value")?.name(), function.text("attr")?) {
                (Some("ctx"), "map") => limit_of(call),
                (_, "items" | "keys" | "values") => of(function.one("value")?),
                _ => None,
            };
        }
        match (function.name()?, arguments.as_slice()) {
            ("range", [end]) => Some(u64::try_from(end.number()?).unwrap_or(0)),
            ("range", [start, end]) => {
                Some(u64::try_from(end.number()?.checked_sub(start.number()?)?).unwrap_or(0))
            }
            ("range", [start, end, step]) => {
                let (start, end, step) = (start.number()?, end.number()?, step.number()?);
                let (length, step) = match step > 0 {
                    true => (end.checked_sub(start)?, step),
                    false => (start.checked_sub(end)?, step.checked_neg()?),
                };
                Some(
                    u64::try_from(length).unwrap_or(0).div_ceil(u64::try_from(step).ok().filter(|s| *s > 0)?),
                )
            }
            (
                "enumerate" | "sorted" | "list" | "tuple" | "reversed" | "set" | "iter" | "dict",
                [first, ..],
            ) => of(*first),
            ("filter", [_, items]) => of(*items),
            ("zip", all) => all.iter().filter_map(|one| of(*one)).min(),
            _ => None,
        }
    }

    /// The greatest number of elements that a method of TypeScript returns.
    fn bound_of_method(&self, call: Node<'a>, deepest: u32) -> Option<u64> {
        let function = call.one("func").filter(|function| function.kind() == "Attribute")?;
        let (value, name) = (function.one("value")?, function.text("attr")?);
        let arguments: Vec<Node<'a>> = call.all("args").collect();
        let of = |node: Node<'a>| self.bound_within(node, deepest);
        match (value.name(), name, arguments.as_slice()) {
            (Some("ctx"), "map", _) => limit_of(call),
            (Some("Object"), "keys" | "values" | "entries", [object]) => of(*object),
            (Some("Array"), "from", [items, ..]) => match items.kind() {
                // `Array.from({length: 5})`
                "Dict" => {
                    let mut fields = items.elements("keys").zip(items.all("values"));
                    let (key, length) = fields.next()?;
                    let is_length = key?.literal() == Some("length") && fields.next().is_none();
                    u64::try_from(length.number().filter(|_| is_length)?).ok()
                }
                _ => of(*items),
            },
            (_, "slice", [_, end]) if end.number().is_some_and(|end| end >= 0) => {
                u64::try_from(end.number()?).ok()
            }
            (_, "slice", [start]) if start.number().is_some_and(|start| start < 0) => {
                start.number().map(i64::unsigned_abs)
            }
            (
                _,
                "slice" | "filter" | "map" | "sort" | "reverse" | "toSorted" | "toReversed" | "entries"
                | "keys" | "values",
                _,
            ) => of(value),
            (_, "concat", more) => more.iter().try_fold(of(value)?, |sum, part| sum.checked_add(of(*part)?)),
            _ => None,
        }
    }

    /// The greatest number of rounds of a loop that counts.
    fn counted(&self, counted: Node<'a>, deepest: u32) -> Option<u64> {
        let number = |field: &str| counted.constant(field)?.as_i64();
        let (start, step) = (number("start")?, u64::try_from(number("step")?).ok().filter(|step| *step > 0)?);
        let inclusive = counted.constant("inclusive")?.as_array()?;
        let ends = counted.all("ends").zip(inclusive).filter_map(|(end, inclusive)| {
            let end = self.greatest(end, deepest)?;
            let end = if inclusive.as_bool()? { end.checked_add(1)? } else { end };
            Some(u64::try_from(end.checked_sub(start)?).unwrap_or(0).div_ceil(step))
        });
        // Each of the conditions ends the loop.
        ends.min()
    }

    /// The greatest value of a whole number.
    fn greatest(&self, number: Node<'a>, deepest: u32) -> Option<i64> {
        self.left.set(self.left.get().checked_sub(1)?);
        let deeper = deepest.checked_sub(1)?;
        if let Some(number) = number.number() {
            return Some(number);
        }
        match number.kind() {
            "Name" => self.greatest(self.value(number.name()?)?, deeper),
            "Attribute" if matches!(number.text("attr"), Some("length" | "size")) => {
                i64::try_from(self.bound_within(number.one("value")?, deeper)?).ok()
            }
            "Call" => {
                let function = number.one("func")?;
                let is_min = function.text("attr") == Some("min")
                    && function.one("value").and_then(Node::name) == Some("Math");
                let mut least = number.all("args").filter_map(|one| self.greatest(one, deeper));
                is_min.then(|| least.next().map(|first| least.fold(first, i64::min)))?
            }
            _ => None,
        }
    }

    /// The greatest number of rounds of a comprehension.
    pub(super) fn rounds(&self, comprehension: Node<'a>) -> Option<u64> {
        self.left.set(MOST_VALUES);
        self.rounds_within(comprehension, DEEPEST)
    }

    fn rounds_within(&self, comprehension: Node<'a>, deepest: u32) -> Option<u64> {
        let mut generators =
            comprehension.all("generators").map(|one| self.bound_within(one.one("iter")?, deepest));
        generators.try_fold(1u64, |product, bound| product.checked_mul(bound?))
    }
}

/// The greatest number of elements of a slice: `[:20]`, `[-20:]`.
fn slice_bound(slice: Node<'_>) -> Option<u64> {
    if slice.kind() != "Slice" {
        return None;
    }
    match (slice.one("lower").map(Node::number), slice.one("upper").map(Node::number)) {
        (_, Some(Some(upper))) if upper >= 0 => u64::try_from(upper).ok(),
        (Some(Some(lower)), None) if lower < 0 => Some(lower.unsigned_abs()),
        _ => None,
    }
}
