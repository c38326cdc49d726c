//! The chat on a terminal: a transcript that scrolls, and the composer below it.

use super::{
    face::{Face, Status, Wish},
    known::Known,
    past_lines::PastLines,
    signal::Signal,
    talk::commands,
};
use crate::{
    editor::{Drafts, edit_file},
    environment::LLM_DO_KEYS,
    questions::{self, Extent, Meant},
};
use anstyle::{AnsiColor, Effects, Style};
use llm_do::Called;
use llm_do_core::question::{Answer, Question, QuestionId, Waiting};
use llm_do_markdown::Blocks;
use llm_do_terminal::{
    Action, Ambiguous, Candidates, Completer, Composer, Console, Editing, Event, History, Line, Notice,
    Rejection, Settings, Stopper, Tty,
};
use std::{
    collections::VecDeque,
    env,
    fs::File,
    io,
    sync::{Arc, atomic::AtomicBool, mpsc::Sender},
    thread::{self, JoinHandle},
};

const DIM: Style = Style::new().effects(Effects::DIMMED);
const NAME: Style = AnsiColor::Cyan.on_default().effects(Effects::BOLD);
const YOU: Style = AnsiColor::Green.on_default().effects(Effects::BOLD);
const BAD: Style = AnsiColor::Red.on_default();
const GOOD: Style = AnsiColor::Green.on_default();
/// The most rows of an unfinished block that are shown.
const TAIL: usize = 6;

/// The chat on a terminal.
pub(super) struct RichFace {
    console: Console<File>,
    tty: Arc<Tty>,
    keys: Option<Keys>,
    signals: Sender<Signal>,
    /// The current answer, whose first lines may be in the transcript.
    answer: Option<Blocks>,
    /// The part of the answer that came by deltas.
    streamed: String,
    questions: VecDeque<Waiting>,
    /// The form in which the first question is in the transcript.
    shown: Shown,
    /// Arguments that the user is editing.
    drafts: Drafts,
    past_lines: PastLines,
    title: String,
}

/// The extent of a question in the transcript, and the columns that it was made for.
struct Shown {
    extent: Extent,
    columns: usize,
}

/// The thread that reads the terminal.
struct Keys {
    stopper: Stopper,
    thread: JoinHandle<()>,
}

impl RichFace {
    /// Takes the terminal over.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn new(
        signals: Sender<Signal>,
        title: &str,
        colour: bool,
        (past_lines, history): (PastLines, Vec<String>),
        known: Arc<Known>,
    ) -> io::Result<Self> {
        let tty = Tty::open()?;
        let settings = Settings {
            colour,
            links: colour && Tty::links(|name| env::var(name).ok()),
            reflow: Tty::reflow(|name| env::var(name).ok()),
            ambiguous: Ambiguous::default(),
            notice: Notice::of(env::var("TERM").ok().as_deref()),
        };
        let vi = env::var(LLM_DO_KEYS.name).is_ok_and(|keys| keys == "vi");
        let editing = if vi { Editing::Vi } else { Editing::Emacs };
        let composer = Composer::new(editing, History::new(history), Box::new(Completion(known)));
        let measured = Arc::clone(&tty);
        let console = Console::new(tty.handle()?, tty.size(), settings)
            .with_composer(composer)
            .measured(move || measured.size());
        let mut face = Self {
            console,
            tty,
            keys: None,
            signals,
            answer: None,
            streamed: String::new(),
            questions: VecDeque::new(),
            shown: Shown { extent: Extent::Folded, columns: 0 },
            drafts: Drafts::default(),
            past_lines,
            title: title.to_owned(),
        };
        face.enter()?;
        Ok(face)
    }

    fn enter(&mut self) -> io::Result<()> {
        self.tty.enter()?;
        let mut events = self.tty.events()?;
        let stopper = events.stopper();
        let signals = self.signals.clone();
        let read = move || {
            while let Some(event) = events.next(None) {
                let closed = event == Event::Closed;
                if signals.send(Signal::Terminal(event)).is_err() || closed {
                    break;
                }
            }
        };
        let thread = thread::Builder::new().name("keys".into()).spawn(read)?;
        self.keys = Some(Keys { stopper, thread });
        self.console.set_title(&self.title.clone())?;
        self.console.enter(self.tty.size())
    }

    fn print(&mut self, lines: &[Line]) {
        // A terminal that is gone is noticed by the thread that reads it.
        let _ = self.console.print(lines);
    }

    /// Returns the current answer. If it has just begun, shows the name of the worker first.
    fn blocks(&mut self, worker: &str) -> &mut Blocks {
        if self.answer.is_none() {
            self.print(&[Line::new(), Line::styled(worker, NAME)]);
        }
        let (columns, links) = (self.console.size().columns(), self.console.settings().links);
        self.answer.get_or_insert_with(|| {
            let blocks = Blocks::new(columns);
            if links { blocks } else { blocks.without_links() }
        })
    }

    fn extend(&mut self, worker: &str, text: &str) {
        let columns = self.console.size().columns();
        let blocks = self.blocks(worker);
        blocks.set_columns(columns);
        let lines: Vec<Line> = blocks.push(text).into_iter().map(line).collect();
        let tail = blocks.pending(TAIL).into_iter().map(line).collect();
        self.console.set_tail(tail);
        self.print(&lines);
    }

    fn finish_answer(&mut self) {
        self.streamed.clear();
        if let Some(blocks) = self.answer.take() {
            let lines: Vec<Line> = blocks.finish().into_iter().map(line).collect();
            self.console.set_tail(Vec::new());
            self.print(&lines);
        }
    }

    fn put(&mut self) {
        let Some(waiting) = self.questions.front().cloned() else { return };
        self.show_question(Extent::Folded);
        let summary = questions::summary(&waiting.question);
        let text = summary.text().into_owned();
        self.console.ask(llm_do_terminal::Question {
            id: waiting.id.to_string(),
            text: vec![summary],
            kind: questions::kind(&waiting.question),
        });
        let _ = self.console.draw();
        self.notify(&text);
    }

    /// Writes the first question into the transcript.
    fn show_question(&mut self, extent: Extent) {
        let Some(waiting) = self.questions.front() else { return };
        let columns = self.console.size().columns();
        let lines = questions::rows(waiting, extent, columns);
        self.shown = Shown { extent, columns };
        self.print(&lines);
    }

    fn next_question(&mut self) {
        self.questions.pop_front();
        self.put();
    }

    /// Gives the terminal to another program while it runs.
    fn away<T>(&mut self, work: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
        let _ = self.console.leave();
        self.tty.leave();
        let done = self.tty.handle().and_then(|file| work(&file));
        self.tty.enter()?;
        self.console.enter(self.tty.size())?;
        done
    }

    fn action(&mut self, action: Action) -> Option<Wish> {
        match action {
            Action::Submit(text) => {
                self.past_lines.add(&text);
                Some(Wish::Say(text))
            }
            Action::Interrupt => Some(Wish::Stop),
            Action::End | Action::Closed => Some(Wish::End),
            Action::EditQueued => Some(Wish::EditQueued),
            Action::OpenEditor(draft) => {
                match self.away(|terminal| edit_file(terminal, &draft, ".md")) {
                    Ok(text) => self.compose(text.strip_suffix('\n').unwrap_or(&text)),
                    Err(error) => self.problem(&format!("the editor: {error}")),
                }
                None
            }
            Action::Suspend => {
                let _ = self.console.leave();
                let stopped = self.tty.suspend();
                let entered = self.console.enter(self.tty.size());
                stopped.and(entered).err().map(|_| Wish::End)
            }
            Action::Settled => {
                // Terminals wrap what they show when they become narrower.
                if self.console.size().columns() < self.shown.columns {
                    self.show_question(self.shown.extent);
                }
                None
            }
            Action::Answered { id, answer } => self.answered(&id, answer),
        }
    }

    fn answered(&mut self, id: &str, answer: llm_do_terminal::Answer) -> Option<Wish> {
        let waiting = self.questions.front().filter(|waiting| waiting.id.to_string() == id)?.clone();
        let wish = match self.meant(&waiting, answer) {
            Err(problem) => {
                self.console.reject(id, problem);
                let _ = self.console.draw();
                return None;
            }
            Ok(None) => {
                self.console.ask_again(id);
                self.show_question(Extent::Full);
                return None;
            }
            Ok(Some(wish)) => wish,
        };
        self.drafts = Drafts::default();
        self.next_question();
        Some(wish)
    }

    /// Interprets an entry. Returns `None` if the whole question is to be shown.
    fn meant(
        &mut self,
        waiting: &Waiting,
        entered: llm_do_terminal::Answer,
    ) -> Result<Option<Wish>, Rejection> {
        let id = waiting.id.clone();
        Ok(match questions::meant(&waiting.question, entered)? {
            Meant::Later => Some(Wish::Later(id)),
            Meant::Answer(answer) => Some(Wish::Answer(id, answer)),
            Meant::Edit => {
                let edited = self.edited(waiting)?;
                waiting.question.accept(&edited).map_err(questions::rejection)?;
                Some(Wish::Answer(id, edited))
            }
            Meant::Show => None,
        })
    }

    /// Returns the arguments as the user edited them.
    fn edited(&mut self, waiting: &Waiting) -> Result<Answer, String> {
        let Question::Approval(approval) = &waiting.question else { return Err("nothing to edit".into()) };
        let mut drafts = std::mem::take(&mut self.drafts);
        let edited =
            self.away(|terminal| Ok(drafts.edit(terminal, &AtomicBool::new(false), &approval.input)));
        self.drafts = drafts;
        Ok(Answer::Edit { input: edited.map_err(|error| error.to_string())?? })
    }
}

/// Breaks the lines of one of llm-do's own pages at words. Continuation rows of a table start below its second column.
fn at_words(text: &str, columns: usize) -> String {
    let most = columns.saturating_sub(1).max(20);
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let indent = line.find("  ").map_or(0, |at| line.len() - line[at..].trim_start().len());
        let indent = if indent * 2 > most { 2 } else { indent };
        let mut used = 0;
        for word in line.split_inclusive(' ') {
            let wide = word.trim_end().chars().count();
            if used > indent && used + wide > most {
                out.truncate(out.trim_end_matches(' ').len());
                out.push('\n');
                out.push_str(&" ".repeat(indent));
                used = indent;
            }
            out.push_str(word);
            used += word.chars().count();
        }
        out.push('\n');
    }
    out.truncate(out.trim_end_matches('\n').len());
    out
}

impl Face for RichFace {
    fn user(&mut self, text: &str) {
        self.finish_answer();
        let mut lines = vec![Line::new(), Line::styled("you", YOU)];
        lines.extend(Line::split(text, Style::new()));
        self.print(&lines);
    }

    fn command(&mut self, line: &str) {
        let line = line.lines().next().unwrap_or_default();
        self.print(&[Line::new(), Line::styled(line, DIM)]);
    }

    fn said(&mut self, text: &str) {
        self.user(text);
    }

    fn delta(&mut self, worker: &str, text: &str) {
        self.streamed.push_str(text);
        self.extend(worker, text);
    }

    fn discard(&mut self) {
        if !self.streamed.is_empty() {
            self.finish_answer();
            self.note("the answer was cut off; the text above does not count");
        }
    }

    fn answer(&mut self, worker: &str, text: &str, cut_off: bool) {
        let streamed = std::mem::take(&mut self.streamed);
        match text.strip_prefix(streamed.as_str()) {
            Some(rest) if !rest.is_empty() => self.extend(worker, rest),
            Some(_) => {}
            None => {
                self.finish_answer();
                self.extend(worker, text);
            }
        }
        self.finish_answer();
        if cut_off {
            self.print(&[Line::styled("(cut off)", DIM)]);
        }
    }

    fn output(&mut self, worker: &str, json: &str) {
        self.finish_answer();
        let mut lines = vec![Line::new(), Line::styled(worker, NAME)];
        lines.extend(Line::split(json, Style::new()));
        self.print(&lines);
    }

    fn call(&mut self, called: &Called) {
        let (indent, style) = ("  ".repeat(called.depth), if called.done { GOOD } else { BAD });
        let mark = Line::styled(&format!("{indent}{} ", called.mark()), style);
        self.print(&[mark.with(&called.line, DIM)]);
    }

    fn note(&mut self, text: &str) {
        let lines: Vec<Line> = Line::split(text, DIM).collect();
        self.print(&lines);
    }

    fn problem(&mut self, text: &str) {
        let lines: Vec<Line> = Line::split(text, BAD).collect();
        self.print(&lines);
    }

    fn page(&mut self, text: &str) {
        let text = at_words(text, self.console.size().columns());
        let lines: Vec<Line> = Line::split(&text, Style::new()).collect();
        self.print(&lines);
    }

    fn ask(&mut self, waiting: &Waiting) {
        self.questions.push_back(waiting.clone());
        if self.questions.len() == 1 {
            self.put();
        }
    }

    fn withdraw(&mut self, id: &QuestionId) {
        self.console.withdraw(&id.to_string());
        let first = self.questions.front().is_some_and(|waiting| waiting.id == *id);
        self.questions.retain(|waiting| waiting.id != *id);
        if first {
            self.put();
        }
        let _ = self.console.draw();
    }

    fn status(&mut self, status: &Status) {
        self.console.set_busy(status.doing.is_some());
        let mut row = Line::styled(&status.about, DIM);
        if let Some(doing) = &status.doing {
            row = Line::styled(doing, NAME).with("  ", DIM).with(&status.about, DIM);
        }
        self.console.set_status(row);
        let _ = self.console.draw();
    }

    fn queue(&mut self, queue: Vec<String>) {
        self.console.set_queue(queue);
        let _ = self.console.draw();
    }

    fn compose(&mut self, text: &str) {
        self.console.composer_mut().set(text);
        let _ = self.console.draw();
    }

    fn copy(&mut self, text: &str) -> bool {
        self.console.copy(text).unwrap_or(false)
    }

    fn notify(&mut self, text: &str) {
        let _ = self.console.notify(text);
    }

    fn event(&mut self, event: Event) -> Option<Wish> {
        match self.console.event(event) {
            Ok(action) => self.action(action?),
            Err(_) => Some(Wish::End),
        }
    }

    fn line(&mut self, _line: Option<String>) -> Option<Wish> {
        None
    }

    fn is_piped(&self) -> bool {
        false
    }

    fn leave(&mut self) {
        self.finish_answer();
        self.past_lines.write();
        let _ = self.console.set_title("");
        let _ = self.console.leave();
        self.tty.leave();
        if let Some(Keys { stopper, thread }) = self.keys.take() {
            stopper.stop();
            // It has nothing left to do.
            let _ = thread.join();
        }
    }
}

impl Drop for RichFace {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Converts a line of Markdown to a line of the terminal.
fn line(line: llm_do_markdown::Line) -> Line {
    let mut shown = Line::new();
    for span in &line.spans {
        match &span.link {
            Some(link) => shown.push_link(&span.text, span.style, link),
            None => shown.push(&span.text, span.style),
        }
    }
    shown
}

/// A completer of commands, their arguments and files.
struct Completion(Arc<Known>);

impl Completer for Completion {
    fn candidates(&mut self, text: &str, caret: usize) -> Option<Candidates> {
        commands::complete(&self.0, text, caret)
    }
}

#[cfg(test)]
mod tests {
    use super::at_words;

    #[test]
    fn pages_break_at_words_below_their_second_column() {
        let text = "/tools    show the tools that the worker may call\nshort\n\nA sentence of several words.";
        let expected = "/tools    show the tools that\n          the worker may call\nshort\n\nA sentence of several words.";
        assert_eq!(at_words(text, 31), expected);
        assert_eq!(at_words("/a-very-long-name  text of it", 24), "/a-very-long-name  text\n  of it");
        assert_eq!(at_words("averylongwordwithoutanyspaces", 24), "averylongwordwithoutanyspaces");
    }
}
