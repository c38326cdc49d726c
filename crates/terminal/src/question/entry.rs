//! A question on the screen, with the user's entry so far.

use super::{Answer, FOCUS, FieldKind, Kind, Question, Rejection};
use crate::{
    composer::{Draft, edit_line},
    keys::{Code, Key},
};

/// The key of the choice that edits.
const EDIT: Key = Key::char('e');

/// A question on the screen.
#[derive(Clone, Debug)]
pub(crate) struct Asking {
    pub(super) question: Question,
    pub(super) stage: Stage,
    /// The reason why the last answer was rejected.
    pub(super) problem: Option<String>,
    focus: Focus,
    /// True after Ctrl-X, which begins Ctrl-X Ctrl-E.
    prefixed: bool,
}

/// The target of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Focus {
    /// Keys go to the composer.
    Composer,
    /// Keys go to the question.
    Question,
    /// Keys go to the question, because there is no composer. The hint says how to leave the question.
    Alone(&'static str),
}

/// The part of the answer that the user is entering.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// A key of the question.
    Key,
    /// The text that belongs to a key.
    KeyText(char, Draft),
    /// The selected option of those that belong to a key.
    KeyPick(char, usize),
    /// A text.
    Text(Draft),
    /// The selected option.
    Pick(usize),
    /// The fields of a form, and the index of the one with the caret.
    Form(Vec<Value>, usize),
}

/// The value of a field.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Text(Draft),
    /// The number of an option, or none yet.
    Pick(Option<usize>),
}

/// The effect of a key on a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The question used or ignored the key.
    Key,
    /// The question is answered.
    Answered(Answer),
}

impl Asking {
    /// Returns a question without the focus.
    pub(crate) fn new(question: Question) -> Self {
        Self::with(question, Focus::Composer)
    }

    /// Returns a question without a composer below it.
    pub(crate) fn alone(question: Question, hint: &'static str) -> Self {
        Self::with(question, Focus::Alone(hint))
    }

    fn with(question: Question, focus: Focus) -> Self {
        let stage = match &question.kind {
            Kind::Keys(_) => Stage::Key,
            Kind::Text => Stage::Text(Draft::new()),
            Kind::Pick(_) => Stage::Pick(0),
            Kind::Form(fields) => Stage::Form(
                fields
                    .iter()
                    .map(|field| match field.kind {
                        FieldKind::Text => Value::Text(Draft::new()),
                        FieldKind::Pick(_) => Value::Pick(None),
                    })
                    .collect(),
                0,
            ),
        };
        Self { question, stage, problem: None, focus, prefixed: false }
    }

    /// Returns the identifier of the question.
    pub(crate) fn id(&self) -> &str {
        &self.question.id
    }

    /// Returns true if keys go to the question.
    pub(crate) fn is_focused(&self) -> bool {
        self.focus != Focus::Composer
    }

    /// Gives the question the focus.
    pub(crate) fn take_focus(&mut self) {
        if self.focus == Focus::Composer {
            self.focus = Focus::Question;
        }
    }

    fn leave_focus(&mut self) {
        if self.focus == Focus::Question {
            self.focus = Focus::Composer;
        }
    }

    /// Returns the hint that says how to take or return the focus, or how to leave the question.
    pub(super) fn hint(&self) -> &'static str {
        match self.focus {
            Focus::Composer => "Ctrl-G: answer",
            Focus::Question => "Escape: back to the message",
            Focus::Alone(hint) => hint,
        }
    }

    /// Returns true if the next key answers, or begins an answer.
    pub(crate) fn is_at_keys(&self) -> bool {
        matches!(self.stage, Stage::Key)
    }

    /// Returns true if the user is entering a text that is not empty.
    pub(crate) fn has_draft(&self) -> bool {
        match &self.stage {
            Stage::Key | Stage::KeyPick(..) | Stage::Pick(_) => false,
            Stage::KeyText(_, draft) | Stage::Text(draft) => !draft.text().is_empty(),
            Stage::Form(values, at) => {
                matches!(values.get(*at), Some(Value::Text(draft)) if !draft.text().is_empty())
            }
        }
    }

    /// Shows that the answer was rejected. In a form, the caret moves to the field that is wrong.
    pub(crate) fn reject(&mut self, rejection: Rejection) {
        if let (Stage::Form(_, at), Kind::Form(fields), Some(wrong)) =
            (&mut self.stage, &self.question.kind, rejection.field)
            && let Some(place) = fields.iter().position(|field| field.name == wrong)
        {
            *at = place;
        }
        self.problem = Some(rejection.problem);
        self.take_focus();
    }

    /// Inserts pasted text where a text is entered.
    pub(crate) fn paste(&mut self, text: &str) {
        match &mut self.stage {
            Stage::Text(draft) => draft.insert(text),
            Stage::KeyText(_, draft) => draft.insert(&text.replace('\n', " ")),
            Stage::Form(values, at) => {
                if let Some(Value::Text(draft)) = values.get_mut(*at) {
                    draft.insert(&text.replace('\n', " "));
                }
            }
            Stage::Key | Stage::KeyPick(..) | Stage::Pick(_) => {}
        }
    }

    /// Applies a key while the question has the focus.
    pub(crate) fn key(&mut self, key: Key) -> Taken {
        if key == FOCUS || key == Key::control('c') || key.code == Code::Escape {
            // The text for a key is dropped, so that the key can be chosen again.
            if matches!(self.stage, Stage::KeyText(..) | Stage::KeyPick(..)) {
                self.stage = Stage::Key;
            }
            self.leave_focus();
            return Taken::Key;
        }
        // As in shells and in the composer, Ctrl-X Ctrl-E edits.
        let prefixed = std::mem::take(&mut self.prefixed);
        self.prefixed = matches!(self.stage, Stage::Key) && key == Key::control('x');
        let key = if prefixed && key == Key::control('e') { EDIT } else { key };
        let answer = match &mut self.stage {
            Stage::Key => self.choose(key),
            Stage::KeyPick(chosen, selected) => {
                let options = options_of(&self.question.kind, *chosen).len();
                let direct = digit(key).filter(|number| *number < options);
                *selected = direct.unwrap_or(*selected);
                let done = direct.is_some() || picked(selected, options, key);
                done.then_some(Answer::Option(*chosen, *selected))
            }
            Stage::KeyText(chosen, draft) => {
                entered(draft, key).then(|| Answer::Key(*chosen, Some(draft.text().trim().to_owned())))
            }
            Stage::Text(draft) => entered(draft, key).then(|| Answer::Text(draft.text().to_owned())),
            Stage::Pick(selected) => {
                let options = match &self.question.kind {
                    Kind::Pick(options) => options.len(),
                    _ => 0,
                };
                picked(selected, options, key).then_some(Answer::Pick(*selected))
            }
            Stage::Form(..) => self.form_key(key),
        };
        match answer {
            Some(answer) => {
                self.leave_focus();
                self.problem = None;
                Taken::Answered(answer)
            }
            None => Taken::Key,
        }
    }

    fn choose(&mut self, key: Key) -> Option<Answer> {
        let Kind::Keys(choices) = &self.question.kind else { return None };
        let typed = key.typed()?;
        let choice = choices.iter().find(|choice| choice.key == typed)?;
        if !choice.options.is_empty() {
            self.stage = Stage::KeyPick(typed, 0);
            return None;
        }
        if let Some(text) = &choice.text {
            let mut draft = Draft::new();
            draft.insert(&text.start);
            self.stage = Stage::KeyText(typed, draft);
            return None;
        }
        Some(Answer::Key(typed, None))
    }

    fn form_key(&mut self, key: Key) -> Option<Answer> {
        let (Stage::Form(values, at), Kind::Form(fields)) = (&mut self.stage, &self.question.kind) else {
            return None;
        };
        let last = fields.len().saturating_sub(1);
        let back = key.code == Code::Up || (key.code == Code::Tab && key.modifiers.shift);
        if back {
            *at = at.saturating_sub(1);
            return None;
        }
        if matches!(key.code, Code::Down | Code::Tab) {
            *at = (*at + 1).min(last);
            return None;
        }
        let enter = match (values.get_mut(*at)?, &fields.get(*at)?.kind) {
            (Value::Text(draft), _) => entered(draft, key),
            (Value::Pick(selected), FieldKind::Pick(options)) => {
                choose_option(selected, options, key);
                key.code == Code::Enter
            }
            (Value::Pick(_), FieldKind::Text) => false,
        };
        if !enter {
            return None;
        }
        if *at < last {
            *at += 1;
            return None;
        }
        let filled: Vec<Option<String>> =
            fields.iter().zip(&*values).map(|(field, value)| value.text(field)).collect();
        let missing = fields.iter().zip(&filled).position(|(field, value)| field.required && value.is_none());
        if let Some(missing) = missing {
            *at = missing;
            self.problem = Some(format!("`{}` is required", fields[missing].name));
            return None;
        }
        let named = fields.iter().zip(filled);
        Some(Answer::Form(named.filter_map(|(field, value)| Some((field.name.clone(), value?))).collect()))
    }
}

/// Returns the options that belong to a key of a question.
pub(super) fn options_of(kind: &Kind, key: char) -> &[String] {
    let Kind::Keys(choices) = kind else { return &[] };
    choices.iter().find(|choice| choice.key == key).map_or(&[], |choice| &choice.options)
}

impl Value {
    /// Returns the value as text, if there is one.
    fn text(&self, field: &super::Field) -> Option<String> {
        match (self, &field.kind) {
            (Self::Text(draft), _) => Some(draft.text().to_owned()).filter(|text| !text.is_empty()),
            (Self::Pick(selected), FieldKind::Pick(options)) => options.get((*selected)?).cloned(),
            (Self::Pick(_), FieldKind::Text) => None,
        }
    }
}

/// Edits a text. Returns true on Enter.
fn entered(draft: &mut Draft, key: Key) -> bool {
    if key == Key::ENTER {
        return true;
    }
    edit_line(draft, key);
    false
}

/// Moves the selection by arrows or a digit. Returns true on Enter.
fn picked(selected: &mut usize, options: usize, key: Key) -> bool {
    let last = options.saturating_sub(1);
    match key.code {
        Code::Enter => return options > 0,
        Code::Up | Code::Left => *selected = selected.saturating_sub(1),
        Code::Down | Code::Right | Code::Tab => *selected = (*selected + 1).min(last),
        _ => {
            if let Some(number) = digit(key).filter(|number| *number <= last) {
                *selected = number;
            }
        }
    }
    false
}

/// Selects one of a field's options: arrows, a digit, or the first letter.
fn choose_option(selected: &mut Option<usize>, options: &[String], key: Key) {
    let count = options.len();
    let next = match key.code {
        Code::Left => selected.map_or(Some(0), |at| at.checked_sub(1)),
        Code::Right => Some(selected.map_or(0, |at| at + 1)),
        Code::Char(' ') => Some(selected.map_or(0, |at| (at + 1) % count.max(1))),
        Code::Backspace | Code::Delete => {
            *selected = None;
            return;
        }
        _ => digit(key).or_else(|| {
            let typed = key.typed()?;
            options.iter().position(|option| option.to_lowercase().starts_with(typed))
        }),
    };
    if let Some(next) = next.filter(|next| *next < count) {
        *selected = Some(next);
    }
}

/// Returns the number that a digit selects: 1 is the first.
fn digit(key: Key) -> Option<usize> {
    let digit = key.typed()?.to_digit(10)? as usize;
    digit.checked_sub(1)
}
