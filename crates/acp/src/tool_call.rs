//! A call as the client shows it.

use agent_client_protocol::v1::schema::{Diff, ToolCallLocation, ToolKind};
use llm_do::{
    core::{authority::Place, question::Preview, source::FunctionSource},
    program::visible,
};
use serde_json::Value;
use std::sync::Arc;

/// The most characters of a title.
const TITLE: usize = 120;

/// A call under way.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// The worker that made it, if it is not the session's own.
    caller: Option<Arc<str>>,
    function: Arc<str>,
    source: FunctionSource,
    input: Arc<Value>,
    /// Real places of the paths that the call touches.
    places: Vec<Place>,
    /// The change that the user saw before the call.
    preview: Option<Diff>,
}

impl Call {
    pub(crate) fn new(
        caller: Option<Arc<str>>,
        function: Arc<str>,
        source: FunctionSource,
        input: Arc<Value>,
    ) -> Self {
        Self { caller, function, source, input, places: Vec::new(), preview: None }
    }

    /// Sets the places that the call touches, with links resolved.
    pub(crate) fn touches(&mut self, places: &[Place]) {
        self.places = places.to_vec();
    }

    /// Sets the change of a file that the user sees.
    pub(crate) fn previews(&mut self, Preview::Change { path, before, after }: &Preview) {
        let diff = Diff::new(self.place(path), after.clone().unwrap_or_default());
        self.preview = Some(diff.old_text(before.clone()));
    }

    /// Returns the title, such as `write_file notes.txt`, after the name of the caller if the call has one.
    pub(crate) fn title(&self) -> String {
        let subject = ["path", "source", "command", "pattern", "url", "input"]
            .iter()
            .find_map(|name| self.input.get(name)?.as_str())
            .unwrap_or_default();
        let call = format!("{} {subject}", self.function);
        let caller = self.caller.as_ref().map(|caller| format!("{caller}: ")).unwrap_or_default();
        visible::start(&visible::line(&format!("{caller}{}", call.trim_end())), TITLE).into_owned()
    }

    pub(crate) fn kind(&self) -> ToolKind {
        let FunctionSource::Toolset(toolset) = &self.source else { return ToolKind::Other };
        match (&**toolset, &*self.function) {
            ("filesystem", "read_file" | "file_info" | "file_exists") => ToolKind::Read,
            ("filesystem", "list_files" | "search_files") => ToolKind::Search,
            ("filesystem", "delete_file") => ToolKind::Delete,
            ("filesystem", "move_file") => ToolKind::Move,
            ("filesystem", _) => ToolKind::Edit,
            ("shell", _) => ToolKind::Execute,
            _ => ToolKind::Other,
        }
    }

    pub(crate) fn locations(&self) -> Vec<ToolCallLocation> {
        self.places.iter().map(|place| ToolCallLocation::new(place.as_str())).collect()
    }

    pub(crate) fn input(&self) -> Value {
        (*self.input).clone()
    }

    /// Returns the change that the call makes to a file: the previewed one, else the one in its arguments.
    pub(crate) fn diff(&self) -> Option<Diff> {
        if self.preview.is_some() {
            return self.preview.clone();
        }
        if self.kind() != ToolKind::Edit {
            return None;
        }
        let text = |name: &str| self.input.get(name).and_then(Value::as_str);
        let path = self.place(text("path")?);
        match &*self.function {
            "write_file" => Some(Diff::new(path, text("content")?)),
            "edit_file" => Some(Diff::new(path, text("new_text")?).old_text(text("old_text")?.to_owned())),
            _ => None,
        }
    }

    /// Returns the real place of the path that the call changes, or the path itself if its place is not known.
    fn place(&self, path: &str) -> String {
        match &self.places[..] {
            [place] => place.to_string(),
            _ => path.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(function: &str, input: Value) -> Call {
        Call::new(None, function.into(), FunctionSource::Toolset("filesystem".into()), Arc::new(input))
    }

    #[test]
    fn an_edit_has_a_diff_at_its_real_place() {
        let mut edit = call("edit_file", json!({"path": "a.txt", "old_text": "x", "new_text": "y"}));
        edit.touches(&[Place::new("/home/ann/p/a.txt")]);
        assert_eq!(edit.kind(), ToolKind::Edit);
        assert_eq!(edit.diff(), Some(Diff::new("/home/ann/p/a.txt", "y").old_text("x".to_owned())));
        let shown = Preview::Change {
            path: "/a.txt".into(),
            before: Some("1x\n".into()),
            after: Some("1y\n".into()),
        };
        edit.previews(&shown);
        assert_eq!(edit.diff(), Some(Diff::new("/home/ann/p/a.txt", "1y\n").old_text("1x\n".to_owned())));
        assert_eq!(call("read_file", json!({"path": "a.txt"})).diff(), None);
    }

    #[test]
    fn a_title_is_one_line_without_control_characters() {
        let title = call("read_file", json!({"path": "a\n\u{1b}[2Jb"})).title();
        assert!(!title.chars().any(char::is_control) && title.starts_with("read_file a"), "{title}");
    }
}
