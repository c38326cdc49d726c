//! Reads the input before any row runs: lists the rows, and looks up the state of each.

use crate::{
    columns::{Columns, Matched, Unmatched, broken_canonical},
    input::Source,
    key::RowKey,
    options::Survey,
    order::{Order, OrderWriter, Ordered},
    problem::Problem,
    row::{Broken, Content, Row},
    slots::Slots,
    state::MapFolder,
};
use llm_do::Others;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A row with its key.
pub(crate) struct Identified {
    pub(crate) key: RowKey,
    /// The input of the row, or the reason why it has none, and its content.
    pub(crate) matched: Result<Matched, (String, Value)>,
}

/// Returns the key of a row, and its input if it has one.
pub(crate) fn identify(columns: &Columns, closure: &str, row: Row) -> Result<Identified, Problem> {
    let Row { place, content } = row;
    let broken = |reason: String, found: Value| {
        let key = RowKey::of(closure, &broken_canonical(&found));
        Identified { key, matched: Err((format!("{place}: {reason}"), found)) }
    };
    Ok(match content {
        Err(Broken { reason, raw }) => broken(reason, columns.unreadable(raw)),
        Ok(content) => match columns.input(content) {
            Ok(matched) => Identified { key: RowKey::of(closure, &matched.canonical), matched: Ok(matched) },
            Err(Unmatched::Row { reason, found }) => broken(reason, found),
            Err(Unmatched::All(Problem::Columns { what, hints })) => {
                return Err(Problem::Columns { what: format!("{place}: {what}"), hints });
            }
            Err(Unmatched::All(problem)) => return Err(problem),
        },
    })
}

/// Reads the input once: lists the rows, and looks up the state of each. `others` is given if no row may be written by
/// others.
pub(crate) fn survey(
    source: &Source,
    columns: &Columns,
    state: &MapFolder,
    others: Option<&Others>,
) -> Result<(Order, Survey), Problem> {
    let failed = |error| state.failed(error);
    let mut seen = Slots::create(&state.places.file("seen")).map_err(failed)?;
    let mut order = OrderWriter::create(&state.places.file("order")).map_err(failed)?;
    let mut survey = Survey { changed: state.changed, ..Survey::default() };
    let mut rows = source.rows(columns.wants_text())?;
    while let Some(row) = rows.next()? {
        if let (Some(others), Ok(Content::File(file))) = (others, &row.content)
            && others.wrote(Path::new(&file.path))
        {
            return Err(Problem::OfOthers(PathBuf::from(&file.path)));
        }
        let Identified { key, matched } = identify(columns, &state.closure, row)?;
        let before = seen.get(&key.0).map_err(failed)?.map_or(0, |count| u128::from_le_bytes(count) as u64);
        seen.put(&key.0, &u128::from(before + 1).to_le_bytes()).map_err(failed)?;
        let id = key.occurrence(before);
        order.push(Ordered { key, id }).map_err(failed)?;
        survey.rows += 1;
        match state.results.find(id).map_err(failed)? {
            Some(found) if found.done => survey.done += 1,
            Some(_) => survey.failed += 1,
            None if state.unfinished.contains_key(&id) => survey.unfinished += 1,
            None => {}
        }
        if let Err((reason, _)) = matched {
            survey.unreadable += 1;
            if survey.examples.len() < Survey::EXAMPLES {
                survey.examples.push(reason);
            }
        }
    }
    columns.check_seen()?;
    let order = order.finish().map_err(failed)?;
    Ok((order, survey))
}
