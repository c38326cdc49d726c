//! Arguments of commands, defined when they are needed.

use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use std::{mem, ops::Deref};

/// The arguments of a command, which are defined when the command is called or described. To define those of all commands
/// would take a good part of the time in which llm-do starts. A command with commands of its own defines them at once:
/// the completions of `help` know no others.
#[derive(Debug)]
pub(crate) struct Deferred<T>(Box<T>);

impl<T> Deferred<T> {
    /// Arguments that were parsed by a definition of their own.
    pub(crate) fn new(arguments: T) -> Self {
        Self(Box::new(arguments))
    }
}

impl<T> Deref for Deferred<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: FromArgMatches> FromArgMatches for Deferred<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(Self::new)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl<T: Args> Args for Deferred<T> {
    fn augment_args(command: Command) -> Command {
        command.defer(|command| as_if_at_once(command, T::augment_args))
    }

    fn augment_args_for_update(command: Command) -> Command {
        command.defer(|command| as_if_at_once(command, T::augment_args_for_update))
    }
}

/// Defines the arguments with the result that they would have had at first: what the command says about itself counts for
/// more than what the types of its arguments say, and the options of all commands, which it has by now, come last.
fn as_if_at_once(command: Command, define: fn(Command) -> Command) -> Command {
    let (about, long_about) = (command.get_about().cloned(), command.get_long_about().cloned());
    let after_help = command.get_after_help().cloned();
    let inherited = command.get_arguments().count();
    let mut command = define(command).long_about(None);
    if let Some(about) = about {
        command = command.about(about);
    }
    if let Some(long_about) = long_about {
        command = command.long_about(long_about);
    }
    if let Some(after_help) = after_help {
        command = command.after_help(after_help);
    }
    let mut arguments = Vec::new();
    command = command.mut_args(|argument| {
        arguments.push(argument);
        Arg::default()
    });
    arguments.rotate_left(inherited);
    let mut arguments = arguments.iter_mut();
    command.mut_args(|place| arguments.next().map_or(place, mem::take))
}
