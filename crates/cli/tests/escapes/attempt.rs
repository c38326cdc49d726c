//! An attempt to escape, and its outcome.

use crate::world::World;
use std::{borrow::Cow, fmt, panic};

/// Attempts of one kind: a test, and a section of the page.
pub(crate) struct Group {
    pub(crate) title: &'static str,
    /// A sentence or two about the oracles and the control.
    pub(crate) about: &'static str,
    pub(crate) attempts: Vec<Attempt>,
}

/// The attacker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Model,
    Document,
    Library,
    Project,
    Process,
    Server,
}

/// The part of llm-do that stops the attack.
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
    McpServer,
    Service,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Model => "model",
            Self::Document => "document",
            Self::Library => "library",
            Self::Project => "project",
            Self::Process => "process",
            Self::Server => "server",
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
            Self::McpServer => "MCP server",
            Self::Service => "service",
        })
    }
}

/// A requirement of an attempt on the machine. The attempt is skipped where it is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// The user `root`, for preparations that need its rights.
    Root,
    /// `/usr/bin/python3`.
    Python,
    /// A Node that runs tools in TypeScript.
    Node,
    /// `git`.
    Git,
    /// A build with local models.
    LocalModels,
    /// Both tiers of confinement.
    Tiers,
    /// The right to make control groups.
    ControlGroup,
    /// The lists of traversal strings beside the checkout.
    Corpus,
}

/// The outcome of an attempt that did not escape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The attack was refused.
    Refused,
    /// The target does not exist for the attacker.
    NotThere,
    /// The input was taken literally, inside the project.
    Literal,
    /// The operation took place, on a file that the attacker may change anyway.
    Inside,
    /// A limit stopped it.
    Bounded,
    /// The attacking process was killed.
    Ended,
    /// The operator sees the text as it is.
    Shown,
    /// The operator is asked, with the reason.
    Asks,
    /// The operator is asked again.
    AskedAgain,
    /// The value was replaced before it was shown or recorded.
    Redacted,
    /// Nothing stops it; the text names the alternative.
    Undefended(&'static str),
    /// The machine lacks a requirement.
    NotTried(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("refused"),
            Self::NotThere => f.write_str("not present"),
            Self::Literal => f.write_str("taken literally"),
            Self::Inside => f.write_str("stays inside"),
            Self::Bounded => f.write_str("bounded"),
            Self::Ended => f.write_str("terminated"),
            Self::Shown => f.write_str("shown to the operator"),
            Self::Asks => f.write_str("the operator is asked"),
            Self::AskedAgain => f.write_str("asked again"),
            Self::Redacted => f.write_str("redacted"),
            Self::Undefended(instead) => write!(f, "**undefended**: {instead}"),
            Self::NotTried(why) => write!(f, "not tried: {why}"),
        }
    }
}

/// An attempt that succeeded, or whose control failed.
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

/// The code of an attempt.
pub(crate) type Attack = fn(&World) -> Tried;

/// An attack: the attacker, the layer and the mechanism that stop it, and its code.
pub(crate) struct Attempt {
    pub(crate) name: &'static str,
    pub(crate) who: Who,
    pub(crate) layer: Layer,
    /// The tiers of confinement in which it is made; `-` where no process is confined.
    pub(crate) tier: &'static str,
    pub(crate) mechanism: Cow<'static, str>,
    pub(crate) needs: Vec<Need>,
    attack: Box<dyn Fn(&World) -> Tried + Send + Sync>,
}

impl Attempt {
    /// An attempt without a confined process.
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

    /// Makes the attempt in a world of its own, then checks the oracles.
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
        // The oracles take precedence over the result of the attempt.
        world.check_oracles()?;
        match outcome {
            Ok(Outcome::NotTried(why)) => Err(Escape(format!("it must not be skipped: {why}"))),
            other => other,
        }
    }
}

/// Fails if a part is missing in the text.
pub(crate) fn holds(text: &str, parts: &[&str]) -> Result<(), Escape> {
    match parts.iter().find(|part| !text.contains(**part)) {
        Some(missing) => Err(Escape(format!("`{missing}` is missing in: {text}"))),
        None => Ok(()),
    }
}

/// Fails the attempt if a condition does not hold.
pub(crate) fn must(holds: bool, what: impl Into<String>) -> Result<(), Escape> {
    if holds { Ok(()) } else { Err(Escape(what.into())) }
}
