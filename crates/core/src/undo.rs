//! The effects of undone turns of a conversation, and the restoration of files (`docs/reference/conversations.md`).

use crate::{
    authority::{Authority, Place},
    foreseen::{FileChange, FileState},
    question::Preview,
};
use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

/// An effect of one call below a conversation with the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SideEffect {
    /// The call changed files as predicted.
    Files {
        /// The authority of the call. Restoring may touch no more.
        authority: Arc<Authority>,
        /// The files, each with its real place.
        files: Vec<(Place, FileChange)>,
    },
    /// The call may have had any other effect, which can't be restored.
    Other {
        /// The function of the call.
        function: Arc<str>,
    },
}

/// A file that undone calls have changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct UndoneFile {
    /// Virtual path, as the first of the calls named it.
    pub path: Arc<str>,
    /// Its real place: calls with different mounts give places the same path.
    pub place: Place,
    /// Whether it can be, or was, restored.
    pub state: Restoration,
    /// The change that restoring makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<Preview>,
}

/// Whether a file can be, or was, restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Restoration {
    /// It can be restored.
    Restorable,
    /// It is as it was before the undone calls.
    Restored,
    /// It is not as the undone calls left it: something else has changed it. It is left alone.
    Changed,
    /// Its earlier content was not kept: it is a folder, or too large, or the run has kept too much.
    NotKept,
    /// It can't be reached or written.
    Failed {
        /// Why.
        reason: Arc<str>,
    },
}

/// `/notes.md was restored`.
impl fmt::Display for UndoneFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        match &self.state {
            Restoration::Restorable => write!(f, "{path} can be restored"),
            Restoration::Restored => write!(f, "{path} was restored"),
            Restoration::Changed => write!(f, "{path} is left as it is: it was changed since"),
            Restoration::NotKept => write!(f, "{path} is left as it is: its earlier content was not kept"),
            Restoration::Failed { reason } => write!(f, "{path} could not be restored: {reason}"),
        }
    }
}

/// The changes of all undone calls to one file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NetChange {
    pub(crate) authority: Arc<Authority>,
    pub(crate) place: Place,
    pub(crate) path: Arc<str>,
    pub(crate) before: FileState,
    pub(crate) after: FileState,
    /// True if another program has changed the file between two of the calls.
    pub(crate) interrupted: bool,
}

/// The changes by file, in the order in which the files were first changed, without those that cancel each other.
pub(crate) fn net_changes(effects: &[SideEffect]) -> Vec<NetChange> {
    let mut nets: Vec<NetChange> = Vec::new();
    for effect in effects {
        let SideEffect::Files { authority, files } = effect else { continue };
        for (place, FileChange { path, before, after }) in files {
            if let Some(net) = nets.iter_mut().find(|net| net.place == *place) {
                net.interrupted |= net.after != *before;
                net.after = after.clone();
            } else {
                nets.push(NetChange {
                    authority: Arc::clone(authority),
                    place: place.clone(),
                    path: Arc::clone(path),
                    before: before.clone(),
                    after: after.clone(),
                    interrupted: false,
                });
            }
        }
    }
    nets.retain(|net| net.before != net.after || net.interrupted);
    nets
}

/// The functions that have had other effects, each once.
pub(crate) fn others(effects: &[SideEffect]) -> Vec<Arc<str>> {
    let mut names: Vec<Arc<str>> = Vec::new();
    for effect in effects {
        if let SideEffect::Other { function } = effect
            && !names.contains(function)
        {
            names.push(Arc::clone(function));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::{Bounds, Network, Protection, View};

    fn changed(changes: &[(&str, &str, &str)]) -> Vec<NetChange> {
        let authority = Arc::new(Authority::new(
            Bounds::new(Vec::new(), Network::Off),
            View::default(),
            Arc::new(Protection::new(Place::new("/p"), [])),
        ));
        let state = |text: &str| match text {
            "" => FileState::Absent,
            text => FileState::File(text.into()),
        };
        let effects = changes.iter().map(|(path, before, after)| SideEffect::Files {
            authority: Arc::clone(&authority),
            files: vec![(
                Place::new(path),
                FileChange { path: (*path).into(), before: state(before), after: state(after) },
            )],
        });
        net_changes(&effects.collect::<Vec<_>>())
    }

    #[test]
    fn changes_of_one_file_are_one_change() {
        let nets = changed(&[("/a", "", "1"), ("/b", "x", "y"), ("/a", "1", "2")]);
        assert_eq!(nets.len(), 2);
        assert_eq!((&nets[0].before, &nets[0].after), (&FileState::Absent, &FileState::File("2".into())));
        assert!(!nets[0].interrupted);
    }

    #[test]
    fn changes_that_cancel_each_other_are_none() {
        assert!(changed(&[("/a", "", "1"), ("/a", "1", "")]).is_empty());
    }

    #[test]
    fn a_change_by_something_else_in_between_is_noticed() {
        let nets = changed(&[("/a", "1", "2"), ("/a", "user", "1")]);
        assert!(nets[0].interrupted);
    }
}
