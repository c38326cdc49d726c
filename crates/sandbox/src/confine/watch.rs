//! Watches for special names that the processes of a run leave behind in the folders that they may write, and that the
//! kernel can't keep them from creating ([`ProcessView::set_aside_planted`]).

use super::{Planted, ProcessView};
use llm_do_core::authority::Authority;
use std::{
    collections::{BTreeSet, HashMap},
    convert::Infallible,
    fmt, io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::mpsc;

/// The time that the end of a run waits for the end of its killed processes.
const ENDING: Duration = Duration::from_secs(5);

/// The largest number of names that have a notice of their own. A process may create any number of them.
const MOST_NOTICES: usize = 20;

/// The views of the processes of each run, and the names that were planted in them so far.
#[derive(Debug, Default)]
pub struct Watch {
    runs: Mutex<HashMap<String, Watched>>,
}

/// The processes of a run.
#[derive(Debug)]
struct Watched {
    /// The views and their authorities, by [`ProcessView::key`].
    views: HashMap<String, (ProcessView, Arc<Authority>)>,
    found: BTreeSet<Planted>,
    /// Cloned into each [`Watching`]; the receiver learns when all of them are gone.
    running: mpsc::Sender<Infallible>,
    ended: mpsc::Receiver<Infallible>,
}

/// A guard that exists as long as a process runs.
#[derive(Debug)]
pub struct Watching {
    _running: Option<mpsc::Sender<Infallible>>,
}

impl Watch {
    fn runs(&self) -> MutexGuard<'_, HashMap<String, Watched>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a process of a run. Call this before the process starts with a view that was made for that authority.
    /// The result must live as long as the process.
    pub fn begin(&self, run: &str, view: &ProcessView, authority: &Arc<Authority>) -> Watching {
        if !view.can_write() {
            return Watching { _running: None };
        }
        let mut runs = self.runs();
        let watched = runs.entry(run.to_owned()).or_insert_with(|| {
            let (running, ended) = mpsc::channel(1);
            Watched { views: HashMap::new(), found: BTreeSet::new(), running, ended }
        });
        watched.views.entry(view.key()).or_insert_with(|| (view.clone(), Arc::clone(authority)));
        Watching { _running: Some(watched.running.clone()) }
    }

    /// Scans the folders of a view like [`ProcessView::set_aside_planted`], and keeps the result for the end of the
    /// run. Call it after a process with that view has ended.
    ///
    /// # Errors
    /// Any system error during the scan.
    pub fn look(&self, run: &str, view: &ProcessView, authority: &Authority) -> io::Result<Vec<Planted>> {
        if !view.can_write() {
            return Ok(Vec::new());
        }
        let planted = view.set_aside_planted(authority)?;
        if let Some(watched) = self.runs().get_mut(run) {
            watched.found.extend(planted.iter().cloned());
        }
        Ok(planted)
    }

    /// Scans the folders of all views of a run, whose processes may still run. Call it before the program's own code is
    /// started again: it must not import a file that a process has planted.
    ///
    /// # Errors
    /// Any system error during the scan.
    pub fn look_again(&self, run: &str) -> io::Result<()> {
        let views: Vec<_> = match self.runs().get(run) {
            Some(watched) => watched.views.values().cloned().collect(),
            None => return Ok(()),
        };
        views.iter().try_for_each(|(view, authority)| self.look(run, view, authority).map(drop))
    }

    /// Waits for the end of all processes of a run, scans their folders once more, and returns a notice for the
    /// operator about each name that appeared in them. Call this after the last process of the run was told to end.
    pub async fn end(&self, run: &str) -> Vec<String> {
        let Some(Watched { views, mut found, running, mut ended }) = self.runs().remove(run) else {
            return Vec::new();
        };
        drop(running);
        let _ = tokio::time::timeout(ENDING, ended.recv()).await;
        let mut notices = Vec::new();
        let looked = tokio::task::spawn_blocking(move || {
            views
                .into_values()
                .map(|(view, authority)| view.set_aside_planted(&authority))
                .collect::<Vec<_>>()
        });
        match looked.await {
            Ok(looked) => {
                for planted in looked {
                    match planted {
                        Ok(planted) => found.extend(planted),
                        Err(error) => notices.push(format!(
                            "the folders that processes of this run could write can't be searched for what they left \
                             there: {error}"
                        )),
                    }
                }
            }
            Err(error) => notices.push(error.to_string()),
        }
        notices.extend(Planted::notices(&found));
        notices
    }
}

impl Planted {
    /// Returns a notice about each of the first names, and a notice with the number of the others.
    pub fn notices<'a>(
        planted: impl IntoIterator<Item = &'a Self, IntoIter: ExactSizeIterator>,
    ) -> Vec<String> {
        let planted = planted.into_iter();
        let others = planted.len().saturating_sub(MOST_NOTICES);
        let mut notices: Vec<String> = planted.take(MOST_NOTICES).map(ToString::to_string).collect();
        if others > 0 {
            notices.push(format!("{others} more such names appeared in folders that processes could write"));
        }
        notices
    }
}

impl fmt::Display for Planted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.replaced { "was replaced" } else { "appeared" };
        let place = escaped(&self.place.to_string_lossy());
        write!(f, "`{place}` {what} in a folder that a process of this run could write. ")?;
        match &self.set_aside {
            Some(now) => {
                let now = now.file_name().unwrap_or_default().to_string_lossy();
                write!(
                    f,
                    "It would be part of the program, so it was renamed to `{}`: if you want to keep it, look at it and name it \
                     as before.",
                    escaped(&now)
                )
            }
            None => f.write_str(
                "Other programs may run what it says, as git does with `.git`: look at it, or remove it, before you work in \
                 that folder.",
            ),
        }
    }
}

/// Escapes a name, so that a line break in it does not look like the end of the notice.
fn escaped(name: &str) -> String {
    name.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_names_are_counted_and_none_forges_a_line() {
        let planted: Vec<Planted> = (0..25)
            .map(|number| Planted {
                place: format!("/p/{number}\nnote: fine/.git").into(),
                replaced: false,
                set_aside: None,
            })
            .collect();
        let notices = Planted::notices(&planted);
        assert_eq!(notices.len(), MOST_NOTICES + 1);
        assert!(notices[0].starts_with("`/p/0\\nnote: fine/.git` appeared"), "{}", notices[0]);
        assert!(notices[MOST_NOTICES].starts_with("5 more"), "{}", notices[MOST_NOTICES]);
        assert!(notices.iter().all(|notice| !notice.contains('\n')));
    }

    #[tokio::test]
    async fn a_run_that_could_write_nothing_has_no_notices() {
        assert!(Watch::default().end("run").await.is_empty());
    }
}
