//! One attempt to escape, and what came of it.

use crate::world::World;
use std::{borrow::Cow, fmt, panic};

/// Attempts of one kind, under a heading of the table.
pub(crate) struct Group {
    pub(crate) title: &'static str,
    /// What their oracle is, and their control: a sentence or two.
    pub(crate) about: &'static str,
    pub(crate) attempts: Vec<Attempt>,
}

/// On whose side the attacker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Model,
    Document,
    Library,
    Project,
    Process,
}

/// Which part of llm-do stops it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    Files,
    Authority,
    Commands,
    Gate,
    Launcher,
    Templates,
    Loader,
    Terminal,
    Journal,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Model => "model",
            Self::Document => "document",
            Self::Library => "library",
            Self::Project => "project",
            Self::Process => "process",
        })
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Files => "virtual file system",
            Self::Authority => "bounds and view",
            Self::Commands => "shell toolset",
            Self::Gate => "gate",
            Self::Launcher => "launcher",
            Self::Templates => "templates",
            Self::Loader => "loader",
            Self::Terminal => "terminal",
            Self::Journal => "journal",
        })
    }
}

/// What an attempt may want of the machine. Where it is missing, the attempt is not tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// The user `root`, to prepare what only that can prepare.
    Root,
    /// `/usr/bin/python3`.
    Python,
    /// `git`.
    Git,
    /// Both tiers of confinement.
    Tiers,
    /// The lists of traversal strings beside the checkout.
    Corpus,
}

/// What came of an attempt that did not escape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Somebody said no.
    Refused,
    /// What was looked for is not there for the attacker.
    NotThere,
    /// It was taken for what it literally is, inside.
    Literal,
    /// It happened, to what the attacker has anyway.
    Inside,
    /// A limit ended it.
    Bounded,
    /// The kernel ended the attacker.
    Ended,
    /// The operator sees it as it is.
    Shown,
    /// The operator is asked, and shown why.
    Asks,
    /// The operator is asked once more.
    Asked,
    /// The value was replaced before anybody saw it.
    Redacted,
    /// Nothing stops it; the text says what there is instead.
    Undefended(&'static str),
    /// This machine can't try it.
    NotTried(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("refused"),
            Self::NotThere => f.write_str("not there"),
            Self::Literal => f.write_str("taken literally"),
            Self::Inside => f.write_str("stays inside"),
            Self::Bounded => f.write_str("bounded"),
            Self::Ended => f.write_str("ended"),
            Self::Shown => f.write_str("shown as it is"),
            Self::Asks => f.write_str("the operator is asked"),
            Self::Asked => f.write_str("asked anew"),
            Self::Redacted => f.write_str("redacted"),
            Self::Undefended(instead) => write!(f, "**undefended**: {instead}"),
            Self::NotTried(why) => write!(f, "not tried: {why}"),
        }
    }
}

/// An attempt that got somewhere, or that could not have got anywhere.
#[derive(Clone, Debug)]
pub(crate) struct Escape(pub(crate) String);

impl fmt::Display for Escape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<T: Into<String>> From<T> for Escape {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

pub(crate) type Tried = Result<Outcome, Escape>;

/// What is done in an attempt.
pub(crate) type Attack = fn(&World) -> Tried;

/// One attack: who makes it, what stops it by which means, and how it is made.
pub(crate) struct Attempt {
    pub(crate) name: &'static str,
    pub(crate) who: Who,
    pub(crate) layer: Layer,
    /// The tiers of confinement in which it is tried; `-` where none is concerned.
    pub(crate) tier: &'static str,
    pub(crate) mechanism: Cow<'static, str>,
    pub(crate) needs: Vec<Need>,
    attack: Box<dyn Fn(&World) -> Tried + Send + Sync>,
}

impl Attempt {
    /// An attempt in which no confined process takes part.
    pub(crate) fn new(
        who: Who,
        layer: Layer,
        name: &'static str,
        mechanism: impl Into<Cow<'static, str>>,
        attack: impl Fn(&World) -> Tried + Send + Sync + 'static,
    ) -> Self {
        let mechanism = mechanism.into();
        Self { name, who, layer, tier: "-", mechanism, needs: Vec::new(), attack: Box::new(attack) }
    }

    pub(crate) fn needs(mut self, need: Need) -> Self {
        self.needs.push(need);
        self
    }

    pub(crate) fn tier(mut self, tier: &'static str) -> Self {
        self.tier = tier;
        self
    }

    /// Makes it in a world of its own, and looks afterwards whether anything got out.
    pub(crate) fn make(&self) -> Tried {
        if let Some(why) = self.needs.iter().find_map(|need| need.missing()) {
            return Ok(Outcome::NotTried(why));
        }
        let world = World::new();
        let attack = panic::AssertUnwindSafe(|| (self.attack)(&world));
        let outcome = panic::catch_unwind(attack).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(Escape(format!("it panicked: {}", text.unwrap_or("without words"))))
        });
        // What the oracles see counts more than what the attempt believes.
        world.nothing_got_out()?;
        match outcome {
            Ok(Outcome::NotTried(why)) => Err(Escape(format!("it was not tried, and must be: {why}"))),
            other => other,
        }
    }
}

/// Whether a text holds these; the text where it does not.
pub(crate) fn holds(text: &str, parts: &[&str]) -> Result<(), Escape> {
    match parts.iter().find(|part| !text.contains(**part)) {
        Some(missing) => Err(Escape(format!("`{missing}` is missing in: {text}"))),
        None => Ok(()),
    }
}

/// What must be so for the attempt to count.
pub(crate) fn must(holds: bool, what: impl Into<String>) -> Result<(), Escape> {
    if holds { Ok(()) } else { Err(Escape(what.into())) }
}
