//! A chat that echoes: `cargo run -p llm-do-terminal --example echo`.
//!
//! `/stream N` streams N lines, `/ask` asks a question. The tests drive it in tmux.

use llm_do_terminal::{
    Action, Answer, Candidate, Candidates, Choice, Completer, Composer, Console, Editing, Event, History,
    KeyText, Kind, Line, Question, Settings, Tty, fuzzy,
};
use std::{
    error::Error,
    io,
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

const COMMANDS: [&str; 3] = ["ask", "exit", "stream"];
/// Time between two streamed lines, and between two draws of the status.
const TICK: Duration = Duration::from_millis(2);
const STATUS: Duration = Duration::from_millis(100);

struct Commands;

impl Completer for Commands {
    fn candidates(&mut self, text: &str, caret: usize) -> Option<Candidates> {
        let typed = text.get(..caret)?.strip_prefix('/')?;
        if typed.contains(char::is_whitespace) {
            return None;
        }
        let candidate = |name: &str| Candidate { text: format!("/{name} "), note: "a command".into() };
        let list = fuzzy::rank(typed, COMMANDS, |name| name).into_iter().map(candidate).collect();
        Some(Candidates { replaces: 0..caret, list })
    }
}

/// Lines that are still to come.
#[derive(Default)]
struct Stream {
    next: usize,
    end: usize,
}

struct Chat<'a> {
    console: Console<&'a Tty>,
    tty: &'a Tty,
    stream: Stream,
    queue: Vec<String>,
    started: Instant,
}

fn main() -> Result<(), Box<dyn Error>> {
    let tty = Tty::open()?;
    let variable = |name: &str| std::env::var(name).ok();
    let settings =
        Settings { colour: true, links: true, reflow: Tty::reflow(variable), ..Settings::default() };
    let composer = Composer::new(Editing::Emacs, History::default(), Box::new(Commands));
    let mut events = tty.events()?;
    let (send, receive) = channel();
    thread::spawn(move || {
        while let Some(event) = events.next(None) {
            let closed = event == Event::Closed;
            if send.send(event).is_err() || closed {
                return;
            }
        }
    });
    tty.enter()?;
    let console = Console::new(&*tty, tty.size(), settings).with_composer(composer);
    let mut chat =
        Chat { console, tty: &tty, stream: Stream::default(), queue: Vec::new(), started: Instant::now() };
    chat.run(&receive)?;
    chat.console.leave()?;
    tty.leave();
    Ok(())
}

impl Chat<'_> {
    fn run(&mut self, events: &Receiver<Event>) -> io::Result<()> {
        self.console.set_title("echo")?;
        self.console.print(&[Line::plain("Type something. Ctrl-D ends.")])?;
        loop {
            // While nothing runs, nothing happens until a key comes.
            let event = if self.stream.next < self.stream.end {
                events.recv_timeout(TICK)
            } else {
                events.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            let action = match event {
                Ok(event) => self.console.event(event)?,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {
                    self.step()?;
                    None
                }
            };
            if !self.take(action)? {
                return Ok(());
            }
        }
    }

    /// Prints the next line of the stream.
    fn step(&mut self) -> io::Result<()> {
        // A window that has just changed is drawn for what it is now.
        self.console.event(Event::Resize(self.tty.size()))?;
        let number = self.stream.next;
        self.stream.next += 1;
        let line = Line::plain(&format!("line {number:03} {}", "abcdefghij ".repeat(number % 9)));
        let tenths = self.started.elapsed().as_millis() / STATUS.as_millis();
        self.console.set_status(Line::plain(&format!(
            "~ streaming, {}.{} s, Ctrl-C stops",
            tenths / 10,
            tenths % 10
        )));
        if self.stream.next == self.stream.end {
            self.console.set_status(Line::new());
            self.console.set_busy(false);
            self.console.print(&[line, Line::plain("end of the stream")])?;
            return self.next_queued();
        }
        self.console.print(&[line])
    }

    fn next_queued(&mut self) -> io::Result<()> {
        if self.queue.is_empty() {
            return Ok(());
        }
        let text = self.queue.remove(0);
        self.console.set_queue(self.queue.clone());
        self.submit(&text)
    }

    /// Performs an action. Returns false if the chat ends.
    fn take(&mut self, action: Option<Action>) -> io::Result<bool> {
        match action {
            None | Some(Action::Settled) => {}
            Some(Action::Submit(text)) if self.stream.next < self.stream.end => {
                self.queue.push(text);
                self.console.set_queue(self.queue.clone());
                self.console.draw()?;
            }
            Some(Action::Submit(text)) if text.trim() == "/exit" => return Ok(false),
            Some(Action::Submit(text)) => self.submit(&text)?,
            Some(Action::EditQueued) => {
                if let Some(text) = self.queue.pop() {
                    self.console.set_queue(self.queue.clone());
                    self.console.composer_mut().set(&text);
                    self.console.draw()?;
                }
            }
            Some(Action::Interrupt) => {
                self.stream = Stream::default();
                self.console.set_busy(false);
                self.console.set_status(Line::new());
                self.console.print(&[Line::plain("stopped")])?;
                self.next_queued()?;
            }
            Some(Action::Answered { id, answer }) => {
                let said = match answer {
                    Answer::Key(key, Some(text)) => format!("{id}: {key}, {text}"),
                    Answer::Key(key, None) => format!("{id}: {key}"),
                    other => format!("{id}: {other:?}"),
                };
                self.console.print(&[Line::plain(&said)])?;
            }
            Some(Action::OpenEditor(draft)) => {
                self.console.leave()?;
                self.tty.leave();
                let edited = draft.to_uppercase();
                self.tty.enter()?;
                self.console.composer_mut().set(&edited);
                self.console.enter(self.tty.size())?;
            }
            Some(Action::Suspend) => {
                self.console.leave()?;
                self.tty.suspend()?;
                self.console.enter(self.tty.size())?;
            }
            Some(Action::End | Action::Closed) => return Ok(false),
        }
        Ok(true)
    }

    fn submit(&mut self, text: &str) -> io::Result<()> {
        let mut lines: Vec<Line> = Line::split(text, anstyle::Style::new()).collect();
        if let Some(first) = lines.first_mut() {
            let rest = std::mem::replace(first, Line::plain("you: "));
            first.extend(rest);
        }
        self.console.print(&lines)?;
        match text.trim().split_once(' ') {
            Some(("/stream", count)) => {
                self.stream = Stream { next: 0, end: count.trim().parse().unwrap_or(10) };
                self.console.set_busy(true);
            }
            _ if text.trim() == "/ask" => {
                let choice = |key, label: &str, text: Option<&str>| Choice {
                    key,
                    label: label.into(),
                    text: text.map(|label| KeyText { label: label.into(), start: String::new() }),
                    options: Vec::new(),
                };
                let choices = vec![choice('a', "approve", None), choice('d', "deny", Some("reason"))];
                let text = vec![Line::plain("main wants to call write_file")];
                self.console.ask(Question { id: "call 1".into(), text, kind: Kind::Keys(choices) });
                self.console.draw()?;
            }
            _ => {
                self.console.print(&[Line::plain(&format!("echo: {}", text.len()))])?;
            }
        }
        Ok(())
    }
}
