//! Reads the input, row by row.

mod bounded;
mod folder;
mod json_lines;
mod quotes;
mod table;

use crate::{
    columns::FILE_COLUMNS,
    problem::Problem,
    row::{Content, Row, without_failure},
};
use std::{
    fs::File,
    io::{self, Read, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
};

/// The largest size of a row, in bytes. A quote that is never closed must not fill the memory.
const LONGEST_ROW: u64 = 64 << 20;

const PIPE: &str =
    "it is no regular file. The input is read twice, so it can't be a pipe: write it to a file first";

/// The form of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// JSON Lines: a JSON value in each line.
    JsonLines,
    /// Fields separated by that character, below a line with the names of the columns.
    Table(u8),
    /// Files of a folder, each of which is a row.
    Folder,
}

/// The input, with its path and its form.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) form: Form,
    /// Files of a folder that are not rows.
    left_out: Vec<PathBuf>,
}

/// The rows, in order.
pub(crate) enum Rows {
    JsonLines(json_lines::JsonLines),
    Table(table::Table),
    Folder(folder::Folder),
}

impl Source {
    /// Determines the form of the input at that path: a folder, or a file whose name ends in `.jsonl`, `.ndjson`,
    /// `.csv` or `.tsv`. `left_out` are files of a folder that are not rows.
    pub(crate) fn at(path: &Path, left_out: Vec<PathBuf>) -> Result<Self, Problem> {
        if path == Path::new("-") {
            return Err(Problem::input(path, io::Error::other(PIPE)));
        }
        let kind = std::fs::metadata(path).map_err(|source| Problem::input(path, source))?;
        if kind.is_dir() {
            return Ok(Self { path: path.to_owned(), form: Form::Folder, left_out });
        }
        if !kind.is_file() {
            return Err(Problem::input(path, io::Error::other(PIPE)));
        }
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_lowercase();
        let form = match ending.as_str() {
            "jsonl" | "ndjson" => Form::JsonLines,
            "csv" => Form::Table(b','),
            "tsv" | "tab" => Form::Table(b'\t'),
            _ => return Err(Problem::UnknownForm(path.to_owned())),
        };
        Ok(Self { path: path.to_owned(), form, left_out })
    }

    /// Starts to read from the beginning. `texts` is true if the texts of a folder's files are wanted.
    pub(crate) fn rows(&self, texts: bool) -> Result<Rows, Problem> {
        let failed = |source| Problem::input(&self.path, source);
        let name: Arc<str> = self.path.display().to_string().into();
        Ok(match self.form {
            Form::JsonLines => Rows::JsonLines(json_lines::JsonLines::new(open(&self.path)?, name)),
            Form::Table(delimiter) => Rows::Table(table::Table::new(open(&self.path)?, delimiter, name)?),
            Form::Folder => {
                Rows::Folder(folder::Folder::new(&self.path, &self.left_out, texts).map_err(failed)?)
            }
        })
    }
}

impl Rows {
    /// Returns the names of the columns, if all rows have the same.
    pub(crate) fn columns(&self) -> Option<&[String]> {
        match self {
            Self::Table(table) => Some(table.columns()),
            Self::JsonLines(_) | Self::Folder(_) => None,
        }
    }

    /// Returns the next row, or `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Row>, Problem> {
        match self {
            Self::JsonLines(rows) => rows.next(),
            Self::Table(rows) => rows.next(),
            Self::Folder(rows) => rows.next(),
        }
    }
}

/// Returns the names of an input's columns: the header of a table, the keys of the first line of JSON, or the columns
/// of a file in a folder.
///
/// # Errors
/// The input can't be read.
pub fn column_names(path: &Path) -> Result<Vec<String>, Problem> {
    let source = Source::at(path, Vec::new())?;
    if source.form == Form::Folder {
        return Ok(FILE_COLUMNS.map(str::to_owned).to_vec());
    }
    let mut rows = source.rows(false)?;
    if let Some(columns) = rows.columns() {
        return Ok(columns.to_vec());
    }
    Ok(match rows.next()?.map(|row| row.content) {
        Some(Ok(Content::Json(serde_json::Value::Object(object)))) => {
            without_failure(object).into_iter().map(|(name, _)| name).collect()
        }
        _ => Vec::new(),
    })
}

/// Opens the file, behind its byte order mark.
fn open(path: &Path) -> Result<File, Problem> {
    let failed = |source| Problem::input(path, source);
    let mut file = File::open(path).map_err(failed)?;
    let mut start = [0; 3];
    let mut read = 0;
    while read < start.len() {
        match file.read(&mut start[read..]).map_err(failed)? {
            0 => break,
            more => read += more,
        }
    }
    if matches!(&start[..read], [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) {
        let what = "it is UTF-16 text. Convert it to UTF-8, for example: iconv -f UTF-16 -t UTF-8 FILE";
        return Err(failed(io::Error::other(what)));
    }
    let skipped = if start[..read] == [0xef, 0xbb, 0xbf] { 3 } else { 0 };
    file.seek(SeekFrom::Start(skipped)).map_err(failed)?;
    Ok(file)
}
