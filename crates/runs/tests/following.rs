//! A journal that is read while it grows.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

use llm_do_core::{
    call_path::CallPath,
    gate::Mode,
    journal::{Ending, FORMAT, RecordKind, RunStatus},
    model::Usage,
};
use llm_do_host::RunLog as _;
use llm_do_records::{Following, OpenRun, RunState};
use llm_do_runs::{Follow, JournalWriter};
use serde_json::json;
use std::{fs, io::Write, sync::Arc};

struct Story {
    journal: JournalWriter,
    _home: tempfile::TempDir,
}

impl Story {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let journal = JournalWriter::create(&home.path().join("runs"), Arc::default(), None).unwrap();
        Self { journal, _home: home }
    }
    fn tell(&self, step: &str, body: RecordKind) {
        self.journal.append(&CallPath::root(), &step.into(), body, None).unwrap();
    }
    fn begin(&self) {
        let body = RecordKind::RunStarted {
            format: FORMAT,
            run: Arc::clone(self.journal.id()),
            version: "0.1.0".into(),
            target: ".".into(),
            chat: false,
            entry: "main".into(),
            approval: Mode::Interactive,
            date: "2026-11-21".into(),
            definitions: Vec::new(),
            runtimes: Vec::new(),
            invocation: None,
            requester: None,
        };
        self.tell("run", body);
    }
    fn note(&self, text: &str) {
        self.tell("note", RecordKind::Note { text: text.into() });
    }
    fn ends(&self) {
        let ending = Ending::Output(Arc::new(json!("done")));
        self.tell("run", RecordKind::RunEnded { status: RunStatus::Done, ending, usage: Usage::default() });
    }
}

#[test]
fn a_journal_is_read_on_as_it_grows() {
    let story = Story::new();
    let mut follow = Follow::new(story.journal.dir());
    assert!(follow.more().unwrap().is_empty());
    assert_eq!(follow.state(), RunState::Open(OpenRun::Running), "the writer holds the journal");
    story.begin();
    story.note("one");
    assert_eq!(follow.more().unwrap().len(), 2);
    assert!(follow.more().unwrap().is_empty());
    story.note(&"x".repeat(10_000));
    let long = follow.more().unwrap();
    assert!(
        matches!(&long[0].body, RecordKind::Note { text } if text.len() == 10_000),
        "long values are in place"
    );
    assert_eq!(follow.state(), RunState::Open(OpenRun::Running));
    story.ends();
    assert_eq!(follow.more().unwrap().len(), 1);
    assert_eq!(follow.state(), RunState::Ended(RunStatus::Done));
    assert!(follow.more().unwrap().is_empty());
    assert_eq!(follow.state(), RunState::Ended(RunStatus::Done), "an end stays one");
    story.tell("run", RecordKind::RunResumed { version: "0.1.0".into(), idle_ms: 0 });
    assert_eq!(follow.more().unwrap().len(), 1);
    assert_eq!(follow.state(), RunState::Open(OpenRun::Running), "until the run continues");
}

#[test]
fn half_a_line_is_waited_for_and_may_be_taken_back() {
    let story = Story::new();
    story.begin();
    let dir = story.journal.dir().to_owned();
    let Story { journal, _home: home } = story;
    drop(journal);
    let path = dir.join("journal.jsonl");
    let whole = fs::read(&path).unwrap();
    let mut follow = Follow::new(&dir);
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"{\"seq\":1,\"at_ms\":9").unwrap();
    assert_eq!(follow.more().unwrap().len(), 1);
    assert_eq!(follow.state(), RunState::Open(OpenRun::CutOff), "nobody holds it");
    assert!(Following::last_line(follow.state()).is_some());
    fs::write(&path, &whole).unwrap();
    assert!(follow.more().unwrap().is_empty());
    let line = b"{\"seq\":1,\"at_ms\":9,\"path\":\"0\",\"step\":\"n\",\"kind\":\"note\",\"text\":\"t\"}\n";
    fs::write(&path, [&whole[..], line].concat()).unwrap();
    assert_eq!(follow.more().unwrap().len(), 1);
    fs::write(&path, [&whole[..], line, line].concat()).unwrap();
    assert!(follow.more().is_err(), "a doubled line");
    drop(home);
}

#[test]
fn a_long_journal_is_read_in_parts_that_count_the_values_beside_it() {
    let story = Story::new();
    story.begin();
    for number in 0..10 {
        // Each lies beside the journal, in a value of its own.
        story.note(&number.to_string().repeat(100_000));
    }
    story.ends();
    let mut follow = Follow::new(story.journal.dir());
    let (mut sizes, mut next) = (Vec::new(), 0);
    loop {
        let part = follow.part(250_000).unwrap();
        assert!(part.records.iter().all(|record| {
            next += 1;
            record.seq == next - 1
        }));
        sizes.push(part.records.len());
        if part.is_last {
            break;
        }
        assert!(!part.records.is_empty(), "{sizes:?}");
    }
    assert_eq!(sizes.iter().sum::<usize>(), 12);
    assert!(sizes.iter().all(|size| *size <= 4), "{sizes:?}");
    assert_eq!(follow.state(), RunState::Ended(RunStatus::Done));
}
