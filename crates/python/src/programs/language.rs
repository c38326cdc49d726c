//! The languages of programs: the names that they may use, and the words in which messages show code.

mod python;
mod script;

use llm_do_core::worker::Language;

/// The words of a language for the check of a program. In texts with `NAME`, a function's name takes its place.
pub(super) struct Dialect {
    pub(super) language: Language,
    /// The value of `language` in the configuration and in calls.
    pub(super) name: &'static str,
    /// The file that errors of a program name.
    pub(super) file: &'static str,
    /// The description of the tool, before the signatures of the functions that programs may call.
    pub(super) description: &'static str,
    /// Modules that a program may import. They compute, and have no effects.
    pub(super) modules: &'static [&'static str],
    /// Names that hide what a program does, that need what its process has not, or that differ from run to run, each with
    /// what to write instead.
    pub(super) refused: &'static [(&'static str, &'static str)],
    /// Attributes that lead out of the program.
    pub(super) hidden: &'static [&'static str],
    /// Classes of exceptions that stop a program. A handler that catches one of them catches the end of the program too.
    pub(super) stops: &'static [&'static str],
    /// Methods that add elements to a collection.
    pub(super) growing: &'static [&'static str],
    /// Calls of methods that return another value in each run: the names of the value, and of the method.
    pub(super) varying: &'static [(&'static str, &'static str)],
    /// The head of `main`.
    pub(super) main: &'static str,
    /// A loop instead of one without a bound.
    pub(super) attempts: &'static str,
    /// A loop over the first items.
    pub(super) first_items: &'static str,
    /// A loop instead of a recursive function.
    pub(super) repeat: &'static str,
    /// A call of a function.
    pub(super) call: &'static str,
    /// A call of a function for each item.
    pub(super) map: &'static str,
    /// The name of a function without a name.
    pub(super) lambda: &'static str,
    /// True if a call without `await` is not waited for.
    pub(super) awaits: bool,
}

impl Dialect {
    pub(super) fn of(language: Language) -> &'static Self {
        match language {
            Language::Python => &python::DIALECT,
            Language::Script => &script::DIALECT,
        }
    }

    /// Returns the dialect of that name.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        [Language::Python, Language::Script].map(Self::of).into_iter().find(|dialect| dialect.name == name)
    }

    /// Returns a text with the name of a function.
    pub(super) fn with(text: &str, name: &str) -> String {
        text.replace("NAME", name)
    }
}
