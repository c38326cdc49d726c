//! Progress of a map: a live row on a terminal, a line from time to time elsewhere.

use crate::{render::Output, screen::Row};
use llm_do_map::{Board, Counts};
use std::{
    fmt::Write as _,
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Time between two updates on a terminal, and between two lines elsewhere.
const LIVE: Duration = Duration::from_millis(200);
const LINES: Duration = Duration::from_secs(10);

/// The display of the progress, until the map ends.
pub(super) struct Progress {
    end: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    pub(super) fn show(board: Board, output: &Output) -> Self {
        let (end, ended) = channel::<()>();
        let (output, quiet) = (output.clone(), output.quiet);
        let show = move || {
            let began = Instant::now();
            let every = if output.err_terminal { LIVE } else { LINES };
            while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let text = line(&board.counts());
                if output.err_terminal {
                    output.screen.live(vec![Row { indent: 0, text, since: began }]);
                } else {
                    output.line(&text);
                }
            }
            output.screen.live(Vec::new());
        };
        // It only decorates: without it the rows still run.
        let thread =
            if quiet { None } else { thread::Builder::new().name("progress".into()).spawn(show).ok() };
        Self { end, thread }
    }

    /// Removes the row.
    pub(super) fn end(mut self) {
        let _ = self.end.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Formats the progress: `120/1000 rows, 3 failed, 14.2/s, 0.34 USD, 1m left`.
fn line(counts: &Counts) -> String {
    let mut text = format!("{}/{} rows", counts.ended(), counts.rows);
    if counts.failed > 0 {
        _ = write!(text, ", {} failed", counts.failed);
    }
    _ = write!(text, ", {:.1}/s", counts.rate());
    if let Some(used) = super::used(counts) {
        _ = write!(text, ", {used}");
    }
    if let Some(left) = counts.left() {
        _ = write!(text, ", {} left", duration(left));
    }
    if let Some(waiting) = &counts.waiting {
        _ = write!(text, "; {} takes no requests", waiting.provider);
        // Otherwise a single request is about to show whether it takes them again.
        let left = waiting.until.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            _ = write!(text, " for {}", duration(left));
        }
    }
    if let Some(batches) = &counts.batches {
        let _ = write!(text, "; {batches}");
    }
    if counts.refused > 0 {
        _ = write!(text, "; {} requests refused and sent again", counts.refused);
    }
    text
}

fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use llm_do_map::Waiting;

    #[test]
    fn a_line_has_rate_cost_rest_and_what_is_waited_for() {
        let mut counts =
            Counts { rows: 1000, done: 99, failed: 1, worked: Duration::from_secs(10), ..Counts::default() };
        assert_eq!(line(&counts), "100/1000 rows, 1 failed, 10.0/s, 1m 30s left");
        counts.usage.cost_usd = llm_do::core::price::Usd::dollars(0.5);
        counts.refused = 2;
        let until = Instant::now() + Duration::from_secs(7200);
        counts.waiting = Some(Waiting { provider: "openai".into(), until });
        assert_eq!(
            line(&counts),
            "100/1000 rows, 1 failed, 10.0/s, 0.50 USD, 1m 30s left; openai takes no requests for 2h 00m; \
             2 requests refused and sent again"
        );
        counts.waiting = Some(Waiting { provider: "openai".into(), until: Instant::now() });
        assert!(line(&counts).contains("; openai takes no requests; 2 requests"));
    }
}
