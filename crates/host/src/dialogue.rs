//! The dialogue of a user with a run, for all faces: a terminal, an editor, the service, a page.
//!
//! [`Dialogue`] is a state machine without I/O. A driver passes it an [`Input`], from the user or from the run, and
//! executes the [`Effect`]s that it returns, in order. The dialogue knows no channels, texts of files, threads or
//! clocks: the driver keeps the senders of replies by their [`QuestionId`], and shows what it likes.
//!
//! | state | next inputs that matter |
//! |---|---|
//! | *new*: no run | a message or another answer begins one; files join the first message |
//! | *beginning*: the driver begins or continues a run | [`Input::Began`], [`Input::NotBegun`] |
//! | *at work*: the run works, or a question waits | messages wait in the queue, or go to the answer under way |
//! | *turn*: a conversation waits for the user | each answer of the user: a message, a file, a call, an undo |
//! | *left*: the run was left and can be continued | a message continues it |
//! | *over*: the run has ended for good | none |
//!
//! An answer that consists of several (files, then the message that they join) is given piece by piece, whenever the
//! conversation waits again, before any other input. A message in the queue is delivered by [`Input::Next`], so that a driver
//! whose messages are lines reads each line when its turn comes.

mod command;
mod refusal;
#[cfg(test)]
mod tests;

pub use command::{Arguments, COMMANDS, Command, Typed, Usage, parse};
pub use refusal::{News, Refusal};

use llm_do_core::{
    call_path::CallPath,
    question::{Answer, Input as Asks, Question, QuestionId, Turn, Waiting},
};
use std::{
    collections::{BTreeMap, VecDeque},
    path::PathBuf,
    sync::Arc,
};

/// The extent of a dialogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// A chat with the entry of a run.
    Chat,
    /// The conversations of workers in the middle of a run. Without one there is no answer to stop, only the run.
    Run,
}

/// The way in which a face takes input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// The extent of the dialogue.
    pub extent: Extent,
    /// True if the input is a sequence of lines that are all taken before the end, as from a pipe. False if a person
    /// watches, and leaving drops the messages that wait.
    pub in_lines: bool,
    /// True if a chat can begin with an answer that is no message.
    pub listens: bool,
}

/// The place to which the user leaves a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leave {
    /// The end of the dialogue.
    End,
    /// Another chat.
    New,
    /// A copy of the chat.
    Fork,
    /// The chat in that folder.
    Other(PathBuf),
}

/// The work that followed the user's last answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// The model answers.
    Answer,
    /// A worker runs that the user has called.
    Call,
    /// The conversation takes a choice for the next message, which is no work to wait for.
    Choice,
}

impl Work {
    /// Returns the work that an answer begins.
    fn of(answer: &Answer) -> Self {
        match answer {
            Answer::Run { .. } => Self::Call,
            Answer::Attach { .. }
            | Answer::Detach { .. }
            | Answer::Forget { .. }
            | Answer::Keep { .. }
            | Answer::Model { .. }
            | Answer::Rule { .. } => Self::Choice,
            _ => Self::Answer,
        }
    }
}

/// An event for the dialogue. `M` is a message of the user, as the driver reads it.
#[derive(Clone, Debug, PartialEq)]
pub enum Input<M> {
    /// The user sends a message.
    Say(M),
    /// The user sends a message to the answer under way of that conversation.
    SayNow(M, CallPath),
    /// The user gives the conversation answers that belong together.
    Give(Vec<Answer>),
    /// The user adds a file to the next message.
    Attach(Arc<str>),
    /// The user removes a file or result from the next message, the last one if none is named. The records say which join it,
    /// by their numbers.
    Detach(Option<String>, Vec<(u32, String)>),
    /// The user adds the result of the call with that number to the next message.
    Keep(Option<u32>),
    /// The user takes the last message back, which the records have under that number.
    Undo(Option<(u32, M)>, Undone<M>),
    /// The user ends a conversation in the middle of a run, or declines to answer a question in words.
    End,
    /// The user answers a question other than a conversation's.
    Answer(QuestionId, Answer),
    /// The user leaves that question for later, which suspends the run.
    Later(QuestionId),
    /// The driver reads the answer to that question from the user's next message. With `queued`, messages that wait count.
    InWords {
        /// The question.
        id: QuestionId,
        /// True if messages that wait count.
        queued: bool,
    },
    /// The user takes the last message that waits back.
    EditQueued,
    /// The driver has handled the last input of the user and can take the next.
    Next,
    /// The user stops the answer under way.
    Stop {
        /// True if a conversation with the user is under way.
        talks: bool,
    },
    /// The user leaves the run. At the end of lines, all of them are answered first.
    Leave {
        /// The place to which the user leaves.
        to: Leave,
        /// True if a conversation with the user is under way.
        talks: bool,
    },
    /// The process must end: the run is interrupted.
    Terminate,
    /// The user is gone: the run is suspended or interrupted, and open questions stay open.
    HangUp,
    /// The run has begun or continues.
    Began,
    /// The run could not begin.
    NotBegun,
    /// The run asks.
    Asked(Waiting),
    /// A question needs no answer any more.
    Withdrawn(QuestionId),
    /// Messages to the answer under way that no request has delivered, oldest first.
    Unsaid(Vec<M>),
    /// A file could not be attached. These answers follow instead of the message that it belongs to, if there is one.
    NotAttached(Vec<Answer>),
    /// The run has ended.
    Ended {
        /// True if it can be continued.
        can_continue: bool,
    },
}

/// The use of a message that is taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undone<M> {
    /// The user gets it for editing.
    Returned,
    /// The message is sent again.
    Again,
    /// Another message is sent in its place.
    Replaced(M),
}

/// An action of the driver.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect<M> {
    /// The driver begins a run with that message and these files. [`Input::Began`] or [`Input::NotBegun`] follows.
    Start(M, Vec<Arc<str>>),
    /// The driver begins a run in which the user speaks first. [`Input::Began`] or [`Input::NotBegun`] follows.
    Listen,
    /// The driver continues the run that was left. [`Input::Began`] or [`Input::NotBegun`] follows.
    Continue,
    /// The driver leaves for that place: no run is under way.
    Go(Leave),
    /// The message is next. The driver gives the answers that it consists of.
    Deliver(M),
    /// The message is the answer to that question, if the driver can read it as one.
    Words(QuestionId, M),
    /// The next request of the answer under way of that conversation delivers the message.
    Interject(CallPath, M),
    /// The question gets that answer.
    Answer(QuestionId, Answer),
    /// The question gets no answer now, which suspends the run.
    Later(QuestionId),
    /// The question is shown to the user.
    Ask(Waiting),
    /// The question needs no answer any more.
    Withdraw(QuestionId),
    /// The conversation waits for the user, after that work.
    Turn(Turn, Work),
    /// The messages that wait have changed.
    Queued,
    /// The user gets a message for editing.
    Return(M),
    /// Answers are not given, because a file was not attached.
    Undelivered(Vec<Answer>),
    /// The answer under way is stopped.
    Stop,
    /// The run is interrupted.
    Cancel,
    /// The run has ended. The user had left it for that place.
    Ended(Option<Leave>),
    /// The input has no effect, for that reason.
    Refused(Refusal),
    /// The user learns that.
    News(News),
}

/// The dialogue of a user with a run, and with the runs that follow.
#[derive(Debug)]
pub struct Dialogue<M> {
    manner: Manner,
    state: State,
    /// The messages that wait, oldest first.
    queue: VecDeque<M>,
    /// True if the first message that waits is sent again, so that it answers no question.
    again: bool,
    /// True if no more input comes. The dialogue ends when all input is answered.
    no_more: bool,
}

#[derive(Debug)]
enum State {
    New(Vec<Arc<str>>),
    Beginning { before: Before, answers: VecDeque<Answer> },
    Running(Running),
    Left,
    Over,
}

/// The state before the beginning, which returns if the run can't begin.
#[derive(Debug)]
enum Before {
    New(Vec<Arc<str>>),
    Left,
}

#[derive(Debug)]
struct Running {
    at: At,
    /// The open questions, without the one of a conversation that waits for the user.
    questions: BTreeMap<QuestionId, Question>,
    /// The question that the user's next message answers.
    in_words: Option<QuestionId>,
    leaving: Option<Leave>,
}

#[derive(Debug)]
enum At {
    /// The run works. The answers follow when the conversation waits again.
    Work(Work, VecDeque<Answer>),
    /// The conversation of that question waits for the user.
    Turn(QuestionId),
}

type Effects<M> = Vec<Effect<M>>;

impl Running {
    fn new(answers: VecDeque<Answer>) -> Self {
        Self {
            at: At::Work(Work::Answer, answers),
            questions: BTreeMap::new(),
            in_words: None,
            leaving: None,
        }
    }

    /// Closes an open question.
    fn close(&mut self, id: &QuestionId) -> Option<Question> {
        self.in_words.take_if(|in_words| in_words == id);
        self.questions.remove(id)
    }

    /// Ends the turn. Returns the question of the conversation that waited.
    fn end_turn(&mut self, work: Work, rest: VecDeque<Answer>) -> Option<QuestionId> {
        match std::mem::replace(&mut self.at, At::Work(work, rest)) {
            At::Turn(id) => Some(id),
            work @ At::Work(..) => {
                self.at = work;
                None
            }
        }
    }

    /// Gives the conversation that waits the first of these answers.
    fn give<M>(&mut self, answers: impl IntoIterator<Item = Answer>) -> Effects<M> {
        let mut rest: VecDeque<Answer> = answers.into_iter().collect();
        let Some(answer) = rest.pop_front() else { return Vec::new() };
        let id = self.end_turn(Work::of(&answer), rest);
        id.map(|id| Effect::Answer(id, answer)).into_iter().collect()
    }

    /// Leaves the conversation that waits for later.
    fn later<M>(&mut self) -> Effects<M> {
        self.end_turn(Work::Choice, VecDeque::new()).map(Effect::Later).into_iter().collect()
    }

    /// Stops the answer under way. Questions of the calls that are being stopped are withdrawn by the run. Only the user
    /// knows the effect of an interrupted tool: without an answer the run is suspended.
    fn stop<M>(&mut self) -> Effects<M> {
        let is_unsettled = |(_, question): &(_, &Question)| matches!(question, Question::Settlement(_));
        let unsettled = self.questions.iter().filter(is_unsettled).map(|(id, _)| id.clone());
        let unsettled: Vec<QuestionId> = unsettled.collect();
        unsettled.iter().for_each(|id| drop(self.close(id)));
        let stays = self.questions.keys().any(|id| id.step.is_restore()).then_some(News::FilesStay);
        let later = unsettled.into_iter().map(Effect::Later);
        [Effect::Stop].into_iter().chain(later).chain(stays.map(Effect::News)).collect()
    }
}

impl<M> Dialogue<M> {
    /// Creates a dialogue without a run.
    pub fn new(manner: Manner) -> Self {
        Self { manner, state: State::New(Vec::new()), queue: VecDeque::new(), again: false, no_more: false }
    }

    /// Creates a dialogue whose run was left, so that the first message continues it.
    pub fn left(manner: Manner) -> Self {
        Self { state: State::Left, ..Self::new(manner) }
    }

    /// Returns the messages that wait, oldest first.
    pub fn queue(&self) -> &VecDeque<M> {
        &self.queue
    }

    /// Drops the messages that wait. Returns true if there were some.
    pub fn clear_queue(&mut self) -> bool {
        self.again = false;
        !std::mem::take(&mut self.queue).is_empty()
    }

    /// Returns the question of the conversation that waits for the user.
    pub fn turn(&self) -> Option<&QuestionId> {
        match &self.state {
            State::Running(Running { at: At::Turn(id), .. }) => Some(id),
            _ => None,
        }
    }

    /// Returns true if a run is under way.
    pub fn is_running(&self) -> bool {
        matches!(self.state, State::Running(_) | State::Beginning { .. })
    }

    /// Returns the work that the user waits for.
    pub fn work(&self) -> Option<Work> {
        match &self.state {
            State::Running(Running { at: At::Work(work, rest), .. }) => match rest.is_empty() {
                true => Some(*work).filter(|work| *work != Work::Choice),
                false => Some(Work::Answer),
            },
            State::Beginning { .. } => Some(Work::Answer),
            _ => None,
        }
    }

    /// Returns an open question, unless it is that of a conversation which waits for the user.
    pub fn question(&self, id: &QuestionId) -> Option<&Question> {
        match &self.state {
            State::Running(run) => run.questions.get(id),
            _ => None,
        }
    }

    /// Returns true if a question is open, other than that of a conversation which waits for the user.
    pub fn is_asked(&self) -> bool {
        matches!(&self.state, State::Running(run) if !run.questions.is_empty())
    }

    /// Returns the question that the user's next message answers.
    pub fn in_words(&self) -> Option<&QuestionId> {
        match &self.state {
            State::Running(run) => run.in_words.as_ref(),
            _ => None,
        }
    }

    /// Returns the files that join the first message.
    pub fn first_files(&self) -> &[Arc<str>] {
        match &self.state {
            State::New(files) => files,
            _ => &[],
        }
    }

    /// Returns true if nothing follows: no run is under way, and no more input comes.
    pub fn is_over(&self) -> bool {
        match &self.state {
            State::Over => true,
            State::New(_) | State::Left => self.no_more && self.queue.is_empty(),
            State::Beginning { .. } | State::Running(_) => false,
        }
    }

    /// Returns the reason why the user can't give a conversation an answer now.
    fn refusal(&self) -> Option<Refusal> {
        match &self.state {
            State::Running(Running { at: At::Turn(_), .. }) => None,
            State::Running(Running { in_words: Some(_), .. }) => Some(Refusal::QuestionFirst),
            State::Running(_) | State::Beginning { .. } => Some(Refusal::NotYourTurn),
            State::New(_) if self.manner.listens => None,
            State::New(_) => Some(Refusal::NotBegun),
            State::Left => Some(Refusal::Left),
            State::Over => Some(Refusal::Over),
        }
    }

    /// Takes an input. Returns the actions of the driver, in order.
    pub fn take(&mut self, input: Input<M>) -> Vec<Effect<M>> {
        match input {
            Input::Say(message) => self.say(message),
            Input::SayNow(message, at) => self.say_now(message, at),
            Input::Give(answers) => self.give(answers),
            Input::Attach(file) => self.attach(file),
            Input::Detach(name, joining) => self.detach(name, joining),
            Input::Keep(Some(message)) => self.give(vec![Answer::Keep { message }]),
            Input::Keep(None) => refused(self.refusal().unwrap_or(Refusal::NothingToKeep)),
            Input::Undo(last, then) => self.undo(last, then),
            Input::End => self.end(),
            Input::Answer(id, answer) => self.close(id, |id| Effect::Answer(id, answer)),
            Input::Later(id) => self.close(id, Effect::Later),
            Input::InWords { id, queued } => self.take_words(id, queued),
            Input::EditQueued => match self.queue.pop_back() {
                Some(message) => {
                    self.again &= !self.queue.is_empty();
                    vec![Effect::Return(message), Effect::Queued]
                }
                None => Vec::new(),
            },
            Input::Next => self.next(),
            Input::Stop { talks } => self.stop(talks),
            Input::Leave { to, talks } => self.leave(to, talks),
            Input::Terminate => self.terminate(),
            Input::HangUp => self.hang_up(),
            Input::Began => self.began(),
            Input::NotBegun => self.not_begun(),
            Input::Asked(waiting) => self.asked(waiting),
            Input::Withdrawn(id) => self.withdrawn(id),
            Input::Unsaid(messages) => {
                messages.into_iter().rev().for_each(|message| self.queue.push_front(message));
                Vec::new()
            }
            Input::NotAttached(instead) => self.not_attached(instead),
            Input::Ended { can_continue } => self.ended(can_continue),
        }
    }

    fn say(&mut self, message: M) -> Effects<M> {
        match &mut self.state {
            State::New(files) => {
                let files = std::mem::take(files);
                self.begin(Before::New(files.clone()), VecDeque::new());
                vec![Effect::Start(message, files)]
            }
            State::Left => {
                self.queue.push_back(message);
                self.begin(Before::Left, VecDeque::new());
                vec![Effect::Continue]
            }
            State::Running(Running { at: At::Turn(_), .. }) => vec![Effect::Deliver(message)],
            State::Running(Running { in_words: Some(id), .. }) => vec![Effect::Words(id.clone(), message)],
            State::Running(_) | State::Beginning { .. } => {
                self.queue.push_back(message);
                vec![Effect::Queued]
            }
            State::Over => refused(Refusal::Over),
        }
    }

    fn begin(&mut self, before: Before, answers: VecDeque<Answer>) {
        self.state = State::Beginning { before, answers };
    }

    fn say_now(&mut self, message: M, at: CallPath) -> Effects<M> {
        match &self.state {
            State::Running(Running { at: At::Work(..), in_words: None, .. }) => {
                vec![Effect::Interject(at, message), Effect::News(News::SaidWithNext)]
            }
            _ => self.say(message),
        }
    }

    fn give(&mut self, answers: Vec<Answer>) -> Effects<M> {
        if let Some(refusal) = self.refusal() {
            return refused(refusal);
        }
        match &mut self.state {
            State::Running(run) => match (&run.at, &answers[..]) {
                (At::Turn(id), [Answer::Model { .. }, ..]) if id.call != CallPath::root() => {
                    refused(Refusal::ModelOfChat)
                }
                _ => run.give(answers),
            },
            State::New(_) if matches!(answers[..], [Answer::Compact { .. } | Answer::UndoCompaction, ..]) => {
                refused(Refusal::NothingToCompact)
            }
            State::New(files) => {
                let files = std::mem::take(files);
                let attach = |file: &Arc<str>| Answer::Attach { file: Arc::clone(file), content: None };
                let answers = files.iter().map(attach).chain(answers).collect();
                self.begin(Before::New(files), answers);
                vec![Effect::Listen]
            }
            State::Beginning { .. } | State::Left | State::Over => Vec::new(),
        }
    }

    fn attach(&mut self, file: Arc<str>) -> Effects<M> {
        match &mut self.state {
            State::New(files) if self.manner.listens => match files.contains(&file) {
                true => Vec::new(),
                false => {
                    files.push(Arc::clone(&file));
                    vec![Effect::News(News::Joins(file))]
                }
            },
            _ => self.give(vec![Answer::Attach { file, content: None }]),
        }
    }

    fn detach(&mut self, name: Option<String>, joining: Vec<(u32, String)>) -> Effects<M> {
        let fits = |known: &str| name.as_deref().is_none_or(|name| name == known);
        if let State::New(files) = &mut self.state {
            return match files.iter().rposition(|file| fits(file)) {
                Some(at) => vec![Effect::News(News::JoinsNoMore(files.remove(at)))],
                None => refused(Refusal::NothingJoins(name)),
            };
        }
        match joining.into_iter().rfind(|(_, known)| fits(known)) {
            Some((message, _)) => self.give(vec![Answer::Detach { message }]),
            None => refused(Refusal::NothingJoins(name)),
        }
    }

    fn undo(&mut self, last: Option<(u32, M)>, then: Undone<M>) -> Effects<M> {
        let nothing = last.is_none().then_some(Refusal::NothingToTakeBack);
        // A chat that has not begun has nothing to take back, whatever may begin it.
        let refusal = self.refusal().filter(|refusal| *refusal != Refusal::NotYourTurn || nothing.is_none());
        if let Some(refusal) = refusal.or(nothing) {
            return refused(refusal);
        }
        let (Some((message, text)), State::Running(run)) = (last, &mut self.state) else {
            return refused(Refusal::NothingToTakeBack);
        };
        let mut effects = run.give([Answer::Undo { message }]);
        match then {
            Undone::Returned => effects.extend([Effect::News(News::TakenBack), Effect::Return(text)]),
            Undone::Again => self.send_again(text),
            Undone::Replaced(new) => self.send_again(new),
        }
        effects
    }

    fn send_again(&mut self, message: M) {
        self.queue.push_front(message);
        self.again = true;
    }

    fn end(&mut self) -> Effects<M> {
        let State::Running(run) = &mut self.state else { return refused(Refusal::NoConversation) };
        match (&run.at, &run.in_words) {
            (At::Turn(id), _) if id.call != CallPath::root() => run.give([Answer::End]),
            (At::Work(..), Some(id)) if id.call != CallPath::root() => {
                let id = id.clone();
                self.close(id, |id| Effect::Answer(id, Answer::Decline { reason: None }))
            }
            _ => refused(Refusal::NoConversation),
        }
    }

    fn close(&mut self, id: QuestionId, effect: impl FnOnce(QuestionId) -> Effect<M>) -> Effects<M> {
        let State::Running(run) = &mut self.state else { return Vec::new() };
        run.close(&id).map(|_| effect(id)).into_iter().collect()
    }

    fn take_words(&mut self, id: QuestionId, queued: bool) -> Effects<M> {
        let State::Running(run) = &mut self.state else { return Vec::new() };
        if !run.questions.contains_key(&id) {
            return Vec::new();
        }
        let next = usize::from(self.again);
        if let Some(message) = queued.then(|| self.queue.remove(next)).flatten() {
            run.in_words = Some(id.clone());
            return vec![Effect::Queued, Effect::Words(id, message)];
        }
        if self.no_more {
            return self.close(id, Effect::Later);
        }
        run.in_words = Some(id);
        Vec::new()
    }

    fn next(&mut self) -> Effects<M> {
        let again = &mut self.again;
        let mut deliver = |queue: &mut VecDeque<M>| {
            let message = queue.pop_front()?;
            *again = false;
            Some(vec![Effect::Queued, Effect::Deliver(message)])
        };
        match &mut self.state {
            State::New(_) => deliver(&mut self.queue).unwrap_or_default(),
            State::Running(run) if matches!(run.at, At::Turn(_)) => {
                let takes = matches!(run.leaving, None | Some(Leave::End));
                if let Some(effects) = takes.then(|| deliver(&mut self.queue)).flatten() {
                    return effects;
                }
                if run.leaving.is_none() && self.no_more {
                    run.leaving = Some(Leave::End);
                }
                match run.leaving {
                    Some(_) => run.later(),
                    None => Vec::new(),
                }
            }
            _ => Vec::new(),
        }
    }

    fn stop(&mut self, talks: bool) -> Effects<M> {
        match &mut self.state {
            State::Running(run) if matches!(run.at, At::Work(..)) => match self.manner.extent {
                // Without a conversation there is no answer to stop.
                Extent::Run if !talks => vec![Effect::Cancel],
                Extent::Run | Extent::Chat => run.stop(),
            },
            _ => refused(Refusal::NothingToStop),
        }
    }

    fn leave(&mut self, to: Leave, talks: bool) -> Effects<M> {
        let is_turn = self.turn().is_some();
        if self.manner.in_lines && to == Leave::End {
            self.no_more = true;
            // The messages that wait are answered before the end.
            return if is_turn && self.queue.is_empty() { self.next() } else { Vec::new() };
        }
        let clear = !self.manner.in_lines && !self.queue.is_empty();
        let extent = self.manner.extent;
        let State::Running(run) = &mut self.state else {
            return match (&self.state, to) {
                (_, Leave::End) => {
                    self.no_more = true;
                    self.clear_queue();
                    Vec::new()
                }
                (State::New(_), Leave::New) => vec![Effect::News(News::Begins)],
                (State::New(_), other @ Leave::Other(_)) => vec![Effect::Go(other)],
                _ => refused(Refusal::NotBegun),
            };
        };
        if !is_turn && matches!(to, Leave::Fork | Leave::Other(_)) {
            return refused(Refusal::NotYourTurn);
        }
        run.leaving = Some(to);
        let effects = match extent {
            _ if is_turn => run.later(),
            Extent::Run if !talks => vec![Effect::Cancel],
            Extent::Run | Extent::Chat => vec![Effect::Stop],
        };
        if clear {
            self.clear_queue();
        }
        clear.then_some(Effect::Queued).into_iter().chain(effects).collect()
    }

    fn terminate(&mut self) -> Effects<M> {
        match &mut self.state {
            State::Running(run) => {
                run.leaving = Some(Leave::End);
                vec![Effect::Cancel]
            }
            _ => {
                self.state = State::Over;
                Vec::new()
            }
        }
    }

    fn hang_up(&mut self) -> Effects<M> {
        self.no_more = true;
        self.clear_queue();
        let State::Running(run) = &mut self.state else { return Vec::new() };
        run.leaving = Some(Leave::End);
        run.in_words = None;
        let mut effects: Effects<M> =
            std::mem::take(&mut run.questions).into_keys().map(Effect::Later).collect();
        // Nothing else is under way while the chat itself waits.
        match &run.at {
            At::Turn(id) if id.call == CallPath::root() => effects.extend(run.later()),
            _ => effects.push(Effect::Cancel),
        }
        effects
    }

    fn began(&mut self) -> Effects<M> {
        let answers = match &mut self.state {
            State::Beginning { answers, .. } => std::mem::take(answers),
            State::New(_) | State::Left => VecDeque::new(),
            State::Running(_) | State::Over => return Vec::new(),
        };
        self.state = State::Running(Running::new(answers));
        Vec::new()
    }

    fn not_begun(&mut self) -> Effects<M> {
        if let State::Beginning { before, .. } = &mut self.state {
            self.state = match before {
                Before::New(files) => State::New(std::mem::take(files)),
                Before::Left => {
                    self.clear_queue();
                    State::Left
                }
            };
        }
        Vec::new()
    }

    fn asked(&mut self, waiting: Waiting) -> Effects<M> {
        let State::Running(run) = &mut self.state else { return vec![Effect::Later(waiting.id)] };
        let Question::Input(Asks { conversation: Some(turn), .. }) = &waiting.question else {
            run.questions.insert(waiting.id.clone(), waiting.question.clone());
            return vec![Effect::Ask(waiting)];
        };
        match std::mem::replace(&mut run.at, At::Turn(waiting.id)) {
            At::Work(_, rest) if !rest.is_empty() => run.give(rest),
            At::Work(work, _) => vec![Effect::Turn(turn.clone(), work)],
            At::Turn(_) => vec![Effect::Turn(turn.clone(), Work::Answer)],
        }
    }

    fn withdrawn(&mut self, id: QuestionId) -> Effects<M> {
        let State::Running(run) = &mut self.state else { return Vec::new() };
        if matches!(&run.at, At::Turn(turn) if *turn == id) {
            run.end_turn(Work::Answer, VecDeque::new());
        } else if run.close(&id).is_none() {
            return Vec::new();
        }
        vec![Effect::Withdraw(id)]
    }

    fn not_attached(&mut self, instead: Vec<Answer>) -> Effects<M> {
        let State::Running(Running { at: At::Work(_, rest), .. }) = &mut self.state else {
            return Vec::new();
        };
        if !matches!(rest.back(), Some(Answer::Give { .. })) {
            return Vec::new();
        }
        let undelivered = std::mem::replace(rest, instead.into());
        vec![Effect::Undelivered(undelivered.into())]
    }

    fn ended(&mut self, can_continue: bool) -> Effects<M> {
        let State::Running(run) = &mut self.state else { return Vec::new() };
        let leaving = run.leaving.take().or(self.no_more.then_some(Leave::End));
        self.state = match leaving {
            Some(Leave::New | Leave::Fork | Leave::Other(_)) => State::New(Vec::new()),
            _ if can_continue => State::Left,
            _ => State::Over,
        };
        vec![Effect::Ended(leaving)]
    }
}

fn refused<M>(refusal: Refusal) -> Effects<M> {
    vec![Effect::Refused(refusal)]
}
