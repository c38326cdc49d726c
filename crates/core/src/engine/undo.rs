//! Undo of turns of a conversation (`docs/reference/conversations.md`): the effects of their calls, and the files that
//! can be restored.

use super::{Admitted, Call, Engine, Frame};
use crate::{
    authority::{Access, Located},
    call_path::CallPath,
    driver::{CutOff, Known, Step, StepEnd},
    foreseen::{FileState, Foreseen, HASHED},
    journal::RecordKind,
    outcome::{End, Halt, Stop},
    question::{Answer, Input, Preview, Question},
    risk::Risk,
    schema::sha256,
    step_name::StepName,
    undo::{NetChange, Restoration, SideEffect, UndoneFile, net_changes, others},
};
use serde_json::json;
use std::{fmt::Write as _, sync::Arc};

/// The answers to the question.
const RESTORE: &str = "restore";
const LEAVE: &str = "leave";

/// Greatest size of a content that the question shows, in bytes. Longer contents are only described.
const PREVIEWED: usize = 64 * 1024;

impl Engine {
    /// Keeps the content that the call is about to replace.
    pub(super) async fn keep_contents(&self, call: &Call<'_>, admitted: &Admitted, foreseen: &Foreseen) {
        if !call.frame.is_in_conversation(self.host.chat) {
            return;
        }
        for change in foreseen.changes.iter().filter(|change| change.before != change.after) {
            let FileState::File(hash) = &change.before else { continue };
            let Some(at) = admitted.places.iter().find(|at| at.path.as_str() == &*change.path) else {
                continue;
            };
            if let Ok((content, _)) = self.host.files.read(at, 0, HASHED).await
                && sha256(&content) == **hash
            {
                // A content that was not kept is missing when the turn is taken back, and the user is told then.
                self.host.driver.keep_content(hash, &content);
            }
        }
    }

    /// Notes the effects of the call, in case the user takes its turn back.
    pub(super) async fn did(
        &self,
        call: &Call<'_>,
        admitted: &Admitted,
        foreseen: Option<&Foreseen>,
        end: &End,
    ) {
        let meta = &call.function.meta;
        if meta.risk == Risk::Read || !call.frame.is_in_conversation(self.host.chat) {
            return;
        }
        let effect = match (foreseen, end) {
            (Some(foreseen), End::Done(_)) => {
                let real = |path: &str| {
                    let mut places = admitted.places.iter().zip(&admitted.real);
                    places.find(|(at, _)| at.path.as_str() == path).map(|(_, real)| real.clone())
                };
                let changes = foreseen.changes.iter();
                let files = changes.filter_map(|change| Some((real(&change.path)?, change.clone())));
                SideEffect::Files {
                    authority: Arc::clone(call.frame.shared_authority()),
                    files: files.collect(),
                }
            }
            _ => SideEffect::Other { function: Arc::clone(&meta.name) },
        };
        self.host.driver.shared().did(&call.path, effect).await;
    }

    /// Undoes message `number` of the conversation at `path`, which the user has taken back, and with it the turns from
    /// `since` on. Forgets the answers that were remembered in them, and offers to restore the files that they changed.
    ///
    /// # Errors
    /// The run is suspended, or can't continue.
    pub(crate) async fn take_back(
        &self,
        frame: &Frame,
        path: &CallPath,
        number: u32,
        since: u32,
    ) -> Result<(), Stop> {
        let shared = self.host.driver.shared();
        let effects = shared.undo(path, since).await;
        if effects.is_empty() {
            return Ok(());
        }
        let nets = net_changes(&effects);
        let undone = async {
            let mut files = Vec::new();
            for net in &nets {
                files.extend(self.undone(net).await);
            }
            RecordKind::Undone { files, others: others(&effects) }
        };
        let name = StepName::Undone(number);
        let files = match self.undo_step(path, name.clone(), undone).await? {
            RecordKind::Undone { files, .. } => files,
            other => return Err(Halt::unexpected(path, &name, &other).into()),
        };
        let restorable: Vec<_> =
            files.into_iter().filter(|file| file.state == Restoration::Restorable).collect();
        if restorable.is_empty() || !self.asks_to_restore(frame, path, number, &restorable).await? {
            return Ok(());
        }
        let nets = nets.iter().filter(|net| restorable.iter().any(|file| file.place == net.place));
        let nets: Vec<_> = nets.collect();
        let restored = async {
            let mut files = Vec::new();
            for net in &nets {
                let state = self.restore(net).await;
                files.push(file(net, state, None));
            }
            RecordKind::Restored { files }
        };
        let name = StepName::Restored(number);
        match self.undo_step(path, name.clone(), restored).await? {
            RecordKind::Restored { files } => {
                let is_restored = |net: &&&NetChange| {
                    files.iter().any(|file| file.place == net.place && file.state == Restoration::Restored)
                };
                let places = nets.iter().filter(is_restored).map(|net| net.place.clone()).collect();
                shared.restored(path, since, places).await;
                Ok(())
            }
            other => Err(Halt::unexpected(path, &name, &other).into()),
        }
    }

    /// Makes a step that runs again after an interruption: it looks at the files before it changes any.
    async fn undo_step(
        &self,
        path: &CallPath,
        name: StepName,
        run: impl Future<Output = RecordKind> + crate::send::MaybeSend,
    ) -> Result<RecordKind, Halt> {
        let step = Step {
            path,
            name: name.clone(),
            intent: None,
            deadline: None,
            cut_off: CutOff::Again,
            run: Box::pin(run),
        };
        match self.host.driver.step(step).await?.end {
            StepEnd::Done(body) => Ok(body),
            // It has no deadline.
            StepEnd::TimedOut => Err(Halt::unexpected(path, &name, &RecordKind::TimedOut { after_ms: 0 })),
        }
    }

    /// Asks the user whether these files are to be restored.
    async fn asks_to_restore(
        &self,
        frame: &Frame,
        path: &CallPath,
        number: u32,
        files: &[UndoneFile],
    ) -> Result<bool, Stop> {
        let mut prompt =
            String::from("Restore the files as they were before the message that you took back?");
        for file in files {
            // A String takes everything.
            let _ = write!(prompt, "\n  {}", file.path);
        }
        let question = Question::Input(Input {
            chain: frame.chain(),
            prompt: prompt.into(),
            schema: Some(Arc::new(json!({"enum": [RESTORE, LEAVE]}))),
            changes: files.iter().filter_map(|file| file.preview.clone()).collect(),
            conversation: None,
            expires_ms: None,
        });
        let asked = self.exchange(frame, path, StepName::Restore(number), question, Known::Nothing).await?;
        Ok(matches!(&asked.given.answer, Answer::Give { value } if value.as_str() == Some(RESTORE)))
    }

    /// The file, with the possibility to restore it; `None` if it is as it was before.
    async fn undone(&self, net: &NetChange) -> Option<UndoneFile> {
        let file = |state, preview| Some(file(net, state, preview));
        let at = match locate(net) {
            Ok(at) => at,
            Err(reason) => return file(Restoration::Failed { reason }, None),
        };
        let now = FileState::at(&*self.host.files, &at).await;
        if now.as_ref() == Some(&net.before) {
            return None;
        }
        if net.interrupted || now.as_ref() != Some(&net.after) {
            return file(Restoration::Changed, None);
        }
        let Some(before) = self.before(net) else { return file(Restoration::NotKept, None) };
        let before = before.map(|content| self.previewed(content));
        let after = match &net.after {
            FileState::File(_) => match self.host.files.read(&at, 0, HASHED).await {
                Ok((content, _)) => Some(self.previewed(content)),
                Err(error) => return file(Restoration::Failed { reason: error.to_string().into() }, None),
            },
            FileState::Absent | FileState::Folder => None,
        };
        let preview = Preview::Change { path: net.path.to_string(), before: after, after: before };
        file(Restoration::Restorable, Some(preview))
    }

    /// The content before the undone calls: `Some(None)` if there was no file, `None` if it is not known.
    fn before(&self, net: &NetChange) -> Option<Option<Vec<u8>>> {
        match (&net.before, &net.after) {
            (FileState::Absent, FileState::File(_)) => Some(None),
            (FileState::File(hash), FileState::File(_) | FileState::Absent) => {
                self.host.driver.kept_content(hash).map(Some)
            }
            _ => None,
        }
    }

    fn previewed(&self, content: Vec<u8>) -> String {
        let bytes = content.len();
        match String::from_utf8(content) {
            Ok(text) if bytes <= PREVIEWED => self.host.redact.text(&text).into_owned(),
            Ok(_) => format!("({bytes} bytes)"),
            Err(_) => format!("(binary, {bytes} bytes)"),
        }
    }

    async fn restore(&self, net: &NetChange) -> Restoration {
        let at = match locate(net) {
            Ok(at) => at,
            Err(reason) => return Restoration::Failed { reason },
        };
        match FileState::at(&*self.host.files, &at).await {
            // An execution that was cut off has restored it.
            Some(now) if now == net.before => return Restoration::Restored,
            Some(now) if now == net.after && !net.interrupted => {}
            _ => return Restoration::Changed,
        }
        let done = match self.before(net) {
            None => return Restoration::NotKept,
            Some(None) => self.host.files.delete(&at).await,
            Some(Some(content)) => self.host.files.write(&at, &content).await,
        };
        match done {
            Ok(()) => Restoration::Restored,
            Err(error) => Restoration::Failed { reason: error.to_string().into() },
        }
    }
}

fn file(net: &NetChange, state: Restoration, preview: Option<Preview>) -> UndoneFile {
    UndoneFile { path: Arc::clone(&net.path), place: net.place.clone(), state, preview }
}

/// The place of the change, within the authority of the call that made it, and nowhere else.
fn locate(net: &NetChange) -> Result<Located, Arc<str>> {
    let mut at = net.authority.locate(&net.path, Access::Write).map_err(|refusal| refusal.to_string())?;
    // A file is removed under its own name. Its content is written to wherever the path leads.
    let follows = net.before != FileState::Absent;
    at.decided(&net.place, follows);
    Ok(at)
}
