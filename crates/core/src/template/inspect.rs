//! Inspects a template without rendering it, so that `check` finds its errors before a run (`docs/guides/check.md`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use minijinja::Value;
use minijinja::machinery::ast::{BinOpKind, CallArg, Expr, Macro, Stmt};
use minijinja::machinery::{Span, parse};
use minijinja::syntax::SyntaxConfig;

use super::error::place_in;
use super::explain::{explain, unknown_filter, unknown_test};
use super::filters::{FILTERS, FUNCTIONS, TESTS};
use super::texts::Texts;
use super::{NoTemplates, Origin, Place, ROOT, Settings, TemplateError, has_syntax};

/// The references of a template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateFacts {
    /// The variables that it reads and does not set itself, each with the first place of its name.
    pub variables: BTreeMap<String, Place>,
    /// The variables that it can render without in some place: `NAME is defined`, `NAME | default(…)`.
    pub guarded: BTreeSet<String>,
    /// The built-in functions that it mentions. A parameter with such a name takes the place of the function.
    pub functions: BTreeSet<String>,
    /// The names that it sets itself, in any scope. Its includes may read them.
    pub set: BTreeSet<String>,
    /// The templates that it extends, includes or imports from.
    pub templates: Vec<Reference>,
    /// The files that it inserts by `file("X")`.
    pub files: Vec<Reference>,
}

/// A template or file that a template names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The name as written; `None` if it is computed during the rendering.
    pub name: Option<String>,
    /// True if it need not exist: `ignore missing`, or one of several.
    pub optional: bool,
    /// The place of the name.
    pub place: Place,
}

/// Reads a template without rendering it. A text without Jinja syntax refers to nothing.
///
/// # Errors
/// A syntax error, or a filter or test that does not exist, anywhere in the template.
pub fn inspect(text: &str, origin: &Origin) -> Result<TemplateFacts, TemplateError> {
    if !has_syntax(text) {
        return Ok(TemplateFacts::default());
    }
    let settings = Settings::default();
    let texts = Arc::new(Texts::new(text, origin, Arc::new(NoTemplates), settings.output));
    let failed = |error: minijinja::Error| explain(&error, &texts, &serde_json::Value::Null, &settings);
    let root = texts.root().map_err(failed)?;
    let tree = parse(&root.text, ROOT, SyntaxConfig::default()).map_err(failed)?;
    let mut reader = Reader {
        text: &root.text,
        origin,
        // `self` has the blocks of the template.
        scopes: vec![BTreeSet::from(["self".to_owned()])],
        bodies: 0,
        later: Vec::new(),
        facts: TemplateFacts::default(),
        unknown: None,
    };
    reader.statement(&tree);
    reader.read_later();
    match reader.unknown {
        Some(error) => Err(error),
        None => Ok(reader.facts),
    }
}

/// The value of a name that is not computed. The engine would multiply texts to compute it.
fn constant(name: &Expr) -> Option<Value> {
    match name {
        Expr::Const(constant) => Some(constant.value.clone()),
        Expr::List(list) => list.as_const(),
        Expr::Tuple(tuple) => tuple.as_const(),
        Expr::BinOp(operation) if matches!(operation.op, BinOpKind::Concat | BinOpKind::Add) => {
            let (left, right) = (constant(&operation.left)?, constant(&operation.right)?);
            let name = [left.as_str()?, right.as_str()?].concat();
            (name.len() <= LONGEST_NAME).then(|| Value::from(name))
        }
        _ => None,
    }
}

/// Longest name of a template that is put together from parts and still looked for before a run.
const LONGEST_NAME: usize = 4096;

struct Reader<'t> {
    text: &'t str,
    origin: &'t Origin,
    /// The names that the template itself has set up to here, the innermost scope last.
    scopes: Vec<BTreeSet<String>>,
    /// Number of bodies of macros and blocks around the current place.
    bodies: usize,
    /// The variables in such bodies that nothing has set up to here. A body runs later, and sees the names that are set
    /// until then.
    later: Vec<(String, Place)>,
    facts: TemplateFacts,
    /// The first filter or test that does not exist. The engine would report it only when execution reaches it.
    unknown: Option<TemplateError>,
}

impl Reader<'_> {
    fn place(&self, span: Span) -> Place {
        place_in(self.text, self.origin, span.start_offset as usize)
    }

    /// The templates that `name` may refer to: one, or several of which the first existing one is used.
    fn references(&self, name: &Expr, optional: bool) -> Vec<Reference> {
        let place = self.place(name.span());
        let reference = |name: Option<String>, optional| Reference { name, optional, place: place.clone() };
        let Some(constant) = constant(name) else {
            return match name {
                Expr::List(list) => list.items.iter().flat_map(|item| self.references(item, true)).collect(),
                Expr::IfExpr(either) => [Some(&either.true_expr), either.false_expr.as_ref()]
                    .into_iter()
                    .flatten()
                    .flat_map(|name| self.references(name, true))
                    .collect(),
                _ => vec![reference(None, optional)],
            };
        };
        match constant.as_str() {
            Some(name) => vec![reference(Some(name.to_owned()), optional)],
            None => constant
                .try_iter()
                .into_iter()
                .flatten()
                .map(|name| reference(name.as_str().map(str::to_owned), true))
                .collect(),
        }
    }

    fn scope(&mut self, read: impl FnOnce(&mut Self)) {
        self.scopes.push(BTreeSet::new());
        read(self);
        self.scopes.pop();
    }

    fn set(&mut self, name: &str) {
        self.scopes.last_mut().expect("the outermost scope stays").insert(name.to_owned());
        self.facts.set.insert(name.to_owned());
    }

    /// Records the names that a target sets. An attribute target reads its object instead.
    fn target(&mut self, target: &Expr) {
        match target {
            Expr::Var(variable) => self.set(variable.id),
            Expr::List(list) => list.items.iter().for_each(|item| self.target(item)),
            Expr::Tuple(tuple) => tuple.items.iter().for_each(|item| self.target(item)),
            other => self.expression(other),
        }
    }

    fn written_macro(&mut self, written: &Macro) {
        self.body(|reader| {
            for name in ["caller", "varargs", "kwargs"] {
                reader.set(name);
            }
            written.args.iter().for_each(|argument| reader.target(argument));
            reader.expressions(&written.defaults);
            reader.statements(&written.body);
        });
    }

    /// Reads the body of a macro or a block.
    fn body(&mut self, read: impl FnOnce(&mut Self)) {
        self.bodies += 1;
        self.scope(read);
        self.bodies -= 1;
    }

    /// Adds the variables of bodies that nothing in the template sets.
    fn read_later(&mut self) {
        for (name, place) in std::mem::take(&mut self.later) {
            if !self.facts.set.contains(&name) {
                self.facts.variables.entry(name).or_insert(place);
            }
        }
    }

    fn statements(&mut self, statements: &[Stmt]) {
        for statement in statements {
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &Stmt) {
        match statement {
            Stmt::Template(template) => self.statements(&template.children),
            Stmt::EmitExpr(emit) => self.expression(&emit.expr),
            Stmt::EmitRaw(_) => {}
            Stmt::ForLoop(each) => {
                self.expression(&each.iter);
                self.scope(|reader| {
                    reader.target(&each.target);
                    reader.expressions(each.filter_expr.as_ref());
                    reader.set("loop");
                    reader.statements(&each.body);
                });
                self.scope(|reader| reader.statements(&each.else_body));
            }
            Stmt::IfCond(condition) => {
                self.expression(&condition.expr);
                self.statements(&condition.true_body);
                self.statements(&condition.false_body);
            }
            Stmt::WithBlock(with) => self.scope(|reader| {
                for (target, value) in &with.assignments {
                    reader.expression(value);
                    reader.target(target);
                }
                reader.statements(&with.body);
            }),
            Stmt::Set(set) => {
                self.expression(&set.expr);
                self.target(&set.target);
            }
            Stmt::SetBlock(set) => {
                self.expressions(set.filter.as_ref());
                self.scope(|reader| reader.statements(&set.body));
                self.target(&set.target);
            }
            Stmt::AutoEscape(escape) => {
                self.expression(&escape.enabled);
                self.statements(&escape.body);
            }
            Stmt::FilterBlock(filter) => {
                self.expression(&filter.filter);
                self.scope(|reader| reader.statements(&filter.body));
            }
            Stmt::Block(block) => self.body(|reader| {
                reader.set("super");
                reader.statements(&block.body);
            }),
            Stmt::Import(import) => {
                self.named(&import.expr, false);
                self.target(&import.name);
            }
            Stmt::FromImport(import) => {
                self.named(&import.expr, false);
                for (name, alias) in &import.names {
                    self.target(alias.as_ref().unwrap_or(name));
                }
            }
            Stmt::Extends(extends) => self.named(&extends.name, false),
            Stmt::Include(include) => self.named(&include.name, include.ignore_missing),
            Stmt::Macro(written) => {
                // It may call itself.
                self.set(written.name);
                self.written_macro(written);
            }
            Stmt::CallBlock(block) => {
                self.call(&block.call.expr, &block.call.args);
                self.written_macro(&block.macro_decl);
            }
            Stmt::Do(run) => self.call(&run.call.expr, &run.call.args),
            // Statements of other engine features contain no names.
            #[allow(unreachable_patterns)]
            _ => {}
        }
    }

    fn named(&mut self, name: &Expr, optional: bool) {
        let references = self.references(name, optional);
        self.facts.templates.extend(references);
        self.expression(name);
    }

    fn expressions<'e>(&mut self, expressions: impl IntoIterator<Item = &'e Expr<'e>>) {
        for expression in expressions {
            self.expression(expression);
        }
    }

    fn expression(&mut self, expression: &Expr) {
        match expression {
            Expr::Var(variable) => {
                let known = |scope: &BTreeSet<String>| scope.contains(variable.id);
                let name = variable.id;
                if self.scopes.iter().any(known) {
                    return;
                }
                if FUNCTIONS.contains(&name) {
                    self.facts.functions.insert(name.to_owned());
                    return;
                }
                let place = self.place(variable.span());
                if self.bodies > 0 {
                    self.later.push((name.to_owned(), place));
                } else {
                    self.facts.variables.entry(name.to_owned()).or_insert(place);
                }
            }
            Expr::Const(_) => {}
            Expr::Slice(slice) => {
                self.expression(&slice.expr);
                self.expressions([&slice.start, &slice.stop, &slice.step].into_iter().flatten());
            }
            Expr::UnaryOp(operation) => self.expression(&operation.expr),
            Expr::BinOp(operation) => self.expressions([&operation.left, &operation.right]),
            Expr::Compare(comparison) => {
                self.expression(&comparison.expr);
                self.expressions(comparison.ops.iter().map(|operation| &operation.expr));
            }
            Expr::IfExpr(either) => {
                self.expressions([&either.test_expr, &either.true_expr]);
                self.expressions(either.false_expr.as_ref());
            }
            Expr::Filter(filter) => {
                if !FILTERS.contains(&filter.name) {
                    let place = self.place(filter.span());
                    self.unknown.get_or_insert(unknown_filter(filter.name, place));
                }
                if let (Some(Expr::Var(variable)), "default" | "d") = (&filter.expr, filter.name) {
                    self.facts.guarded.insert(variable.id.to_owned());
                }
                self.expressions(filter.expr.as_ref());
                self.arguments(&filter.args);
            }
            Expr::Test(test) => {
                if !TESTS.contains(&test.name) && test.name.starts_with(char::is_alphabetic) {
                    let place = self.place(test.span());
                    self.unknown.get_or_insert(unknown_test(test.name, place));
                }
                if let (Expr::Var(variable), "defined" | "undefined") = (&test.expr, test.name) {
                    self.facts.guarded.insert(variable.id.to_owned());
                }
                self.expression(&test.expr);
                self.arguments(&test.args);
            }
            Expr::GetAttr(attribute) => self.expression(&attribute.expr),
            Expr::GetItem(item) => self.expressions([&item.expr, &item.subscript_expr]),
            Expr::Call(call) => self.call(&call.expr, &call.args),
            Expr::List(list) => self.expressions(&list.items),
            Expr::Tuple(tuple) => self.expressions(&tuple.items),
            Expr::Map(map) => self.expressions(map.keys.iter().chain(&map.values)),
        }
    }

    fn call(&mut self, called: &Expr, arguments: &[CallArg]) {
        if let (Expr::Var(function), Some(CallArg::Pos(name))) = (called, arguments.first())
            && function.id == "file"
        {
            let references = self.references(name, false);
            self.facts.files.extend(references);
        }
        self.expression(called);
        self.arguments(arguments);
    }

    fn arguments(&mut self, arguments: &[CallArg]) {
        for argument in arguments {
            match argument {
                CallArg::Pos(value)
                | CallArg::Kwarg(_, value)
                | CallArg::PosSplat(value)
                | CallArg::KwargSplat(value) => self.expression(value),
            }
        }
    }
}
