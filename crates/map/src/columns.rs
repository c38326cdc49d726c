//! Matches the columns of the input with the parameters of the worker.

use crate::{
    input::Form,
    problem::Problem,
    row::{Content, FileRow, ROW, Raw, without_failure},
};
use llm_do::{
    Input, InputPart, ReadPart,
    core::{
        authority::Access,
        schema::{canonical, sha256},
        worker::{INPUT, Parameter, WorkerDefinition},
    },
    program::{
        diagnostics::nearest,
        signature::{self, Given},
    },
};
use serde_json::{Map, Value};
use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// `--set-column PARAMETER=COLUMN`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// The parameter.
    pub parameter: String,
    /// The column whose values it gets.
    pub column: String,
}

/// The assignment of columns to parameters.
pub(crate) struct Columns {
    worker: Arc<WorkerDefinition>,
    /// Parameters by the columns that `--set-column` assigns to them.
    renamed: BTreeMap<String, String>,
    ignored: Vec<String>,
    /// Parameters that are the same in all rows, as text and as values.
    constants: Vec<(String, String)>,
    constant_values: Map<String, Value>,
    /// Parameters that the program's manifest gives if a row does not.
    bound: Vec<(String, Value)>,
    /// The parameter of each field of a table.
    fields: Vec<Option<String>>,
    /// The parameters that a file of a folder fills, each with the part of the file that it gets.
    file: Vec<(String, FilePart)>,
    /// The columns of `renamed` and `ignored` that JSON objects had so far.
    seen: RefCell<BTreeSet<String>>,
    has_objects: Cell<bool>,
    /// True if the operator wrote the rows.
    trusted: bool,
}

/// The columns of a file in a folder.
pub(crate) const FILE_COLUMNS: [&str; 3] = ["path", "name", "text"];

/// The part of a file in a folder that becomes the value of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FilePart {
    Path,
    Name,
    Text,
}

/// A row as an input of the worker.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Matched {
    /// The input.
    pub(crate) input: Input,
    /// The parameters with their values, which are also a row of JSON Lines.
    pub(crate) value: Value,
    /// The text that identifies this input among others.
    pub(crate) canonical: String,
}

/// The reason why a row has no input.
#[derive(Debug)]
pub(crate) enum Unmatched {
    /// The row fails.
    Row {
        /// The reason.
        reason: String,
        /// The content of the row.
        found: Value,
    },
    /// The error concerns all rows: nothing can run.
    All(Problem),
}

impl Columns {
    /// Matches the names. `header` contains the columns of a table.
    pub(crate) fn new(
        worker: Arc<WorkerDefinition>,
        given: (&[Renamed], &[String], &[(String, String)]),
        bound: Vec<(String, Value)>,
        form: Form,
        header: Option<&[String]>,
    ) -> Result<Self, Problem> {
        let (renamed, ignored, constants) = given;
        let mut this = Self {
            renamed: BTreeMap::new(),
            ignored: ignored.to_vec(),
            constants: constants.to_vec(),
            constant_values: Map::new(),
            bound,
            fields: Vec::new(),
            file: Vec::new(),
            seen: RefCell::default(),
            has_objects: Cell::new(false),
            trusted: false,
            worker,
        };
        for Renamed { parameter, column } in renamed {
            this.known(parameter, "--set-column")?;
            let double = this.renamed.insert(column.clone(), parameter.clone()).is_some()
                || renamed.iter().filter(|other| other.parameter == *parameter).count() > 1;
            if double {
                let what = format!("--set-column names `{parameter}` or `{column}` twice");
                return Err(this.wrong(what, Vec::new()));
            }
        }
        for (name, _) in constants {
            this.known(name, "--param")?;
            if let Some(Renamed { column, .. }) = renamed.iter().find(|renamed| renamed.parameter == *name) {
                return Err(this.given_twice(name, column));
            }
        }
        if this.worker.signature.declared {
            let given = Given { message: None, json: None, parameters: constants };
            let values = signature::input_value(&this.worker.id, &this.worker.signature, given);
            let values =
                values.map_err(|error| this.wrong(format!("--param: {}", error.message), Vec::new()))?;
            this.constant_values = values.as_object().cloned().unwrap_or_default();
        }
        match (form, header) {
            (Form::Folder, _) => this.match_files(renamed)?,
            (_, Some(header)) => this.match_header(header)?,
            (_, None) => {}
        }
        Ok(this)
    }

    /// Sets whether the operator wrote the rows.
    pub(crate) fn trusted(self, trusted: bool) -> Self {
        Self { trusted, ..self }
    }

    /// Returns true if the texts of a folder's files are needed.
    pub(crate) fn wants_text(&self) -> bool {
        self.file.iter().any(|(_, part)| *part == FilePart::Text)
    }

    fn parameters(&self) -> &[Parameter] {
        &self.worker.signature.parameters
    }

    fn parameter(&self, name: &str) -> Option<&Parameter> {
        self.parameters().iter().find(|parameter| *parameter.name == *name)
    }

    /// Returns true if an input may have the parameter: `instructions` and `attachments` are valid beside the declared
    /// ones.
    fn takes(&self, name: &str) -> bool {
        let signature = &self.worker.signature;
        let always = || signature.schema.value().get("properties").is_some_and(|all| all.get(name).is_some());
        !signature.declared || self.parameter(name).is_some() || always()
    }

    fn known(&self, name: &str, flag: &str) -> Result<(), Problem> {
        if self.takes(name) {
            return Ok(());
        }
        let near = nearest(name, self.parameters().iter().map(|parameter| &*parameter.name));
        let hints = near.first().map(|near| format!("did you mean `{near}`?")).into_iter().collect();
        Err(self.wrong(format!("{flag}: the worker has no parameter `{name}`"), hints))
    }

    fn wrong(&self, what: String, hints: Vec<String>) -> Problem {
        let signature = signature::show(&self.worker.id, &self.worker.signature);
        Problem::Columns { what: format!("{what}\n  signature: {signature}"), hints }
    }

    fn given_twice(&self, name: &str, column: &str) -> Problem {
        let what = format!("`{name}` gets a value from --param and from the column `{column}`");
        let hints = vec![
            format!("leave the column out with --ignore-column {}", quoted(column)),
            format!("or leave out --param {name}"),
        ];
        self.wrong(what, hints)
    }

    fn is_constant(&self, name: &str) -> bool {
        self.constants.iter().any(|(given, _)| given == name)
    }

    fn is_given(&self, name: &str) -> bool {
        self.is_constant(name) || self.bound.iter().any(|(bound, _)| bound == name)
    }

    /// Returns the parameter that a column fills, or `None` if the column is ignored.
    fn of_column(&self, column: &str) -> Result<Option<String>, Problem> {
        if self.ignored.iter().any(|ignored| ignored == column) {
            return Ok(None);
        }
        let name = self.renamed.get(column).map_or(column, String::as_str);
        if self.renamed.iter().any(|(from, to)| to == column && from != column) {
            let what =
                format!("the parameter `{column}` gets another column, and there is a column of its name");
            let hints = vec![format!("leave the column out with --ignore-column {}", quoted(column))];
            return Err(self.wrong(what, hints));
        }
        if self.is_constant(name) {
            return Err(self.given_twice(name, column));
        }
        if self.takes(name) {
            return Ok(Some(name.to_owned()));
        }
        let near = nearest(column, self.parameters().iter().map(|parameter| &*parameter.name));
        let (parameter, quoted) = (near.first().map_or("PARAMETER", String::as_str), quoted(column));
        let hints = vec![
            format!("name its parameter with --set-column {parameter}={quoted}"),
            format!("or leave it out with --ignore-column {quoted}"),
        ];
        Err(self.wrong(format!("the column `{column}` fits no parameter"), hints))
    }

    fn match_header(&mut self, header: &[String]) -> Result<(), Problem> {
        for column in self.renamed.keys().chain(&self.ignored) {
            if !header.contains(column) {
                let near = nearest(column, header.iter().map(String::as_str));
                let columns: Vec<String> = header.iter().map(|column| format!("`{column}`")).collect();
                let mut hints = vec![format!("the columns are {}", columns.join(", "))];
                hints.splice(0..0, near.first().map(|near| format!("did you mean `{near}`?")));
                return Err(self.wrong(format!("there is no column `{column}`"), hints));
            }
        }
        let mut fields = Vec::new();
        for column in header {
            fields.push(self.of_column(column).map_err(|problem| match problem {
                // A table of a spreadsheet whose country writes numbers with a comma.
                Problem::Columns { what, mut hints } if header.len() == 1 && column.contains([';', '\t', ',']) => {
                    let hint = "the fields of a .csv file are separated by commas and those of a .tsv file by tabs: write the table so";
                    hints.insert(0, hint.into());
                    Problem::Columns { what, hints }
                }
                problem => problem,
            })?);
        }
        let missing: Vec<&str> = self
            .parameters()
            .iter()
            .filter(|parameter| parameter.required && !self.is_given(&parameter.name))
            .map(|parameter| &*parameter.name)
            .filter(|name| !fields.iter().flatten().any(|field| field == name))
            .collect();
        if let Some(first) = missing.first() {
            let names: Vec<String> = missing.iter().map(|name| format!("`{name}`")).collect();
            let hints = vec![
                format!("name a column with --set-column {first}=COLUMN"),
                format!("or give all rows the same value with --param {first}=VALUE"),
            ];
            return Err(self.wrong(format!("no column is for {}", names.join(", ")), hints));
        }
        self.fields = fields;
        Ok(())
    }

    fn match_files(&mut self, renamed: &[Renamed]) -> Result<(), Problem> {
        let mut file = Vec::new();
        for Renamed { parameter, column } in renamed {
            let part = match column.as_str() {
                "path" => FilePart::Path,
                "name" => FilePart::Name,
                "text" => FilePart::Text,
                _ => {
                    let what = format!("a file of a folder has no column `{column}`");
                    return Err(self.wrong(what, vec!["its columns are `path`, `name` and `text`".into()]));
                }
            };
            file.push((parameter.clone(), part));
        }
        let open: Vec<&Parameter> = self
            .parameters()
            .iter()
            .filter(|parameter| parameter.required && !self.is_given(&parameter.name))
            .filter(|parameter| !file.iter().any(|(name, _)| *name == *parameter.name))
            .collect();
        match open[..] {
            [] if !file.is_empty() => {}
            [] => {
                let message = self.worker.signature.message.as_deref();
                let Some(message) = message.filter(|message| !self.is_constant(message)) else {
                    let what = "no parameter is for the files of the folder".to_owned();
                    let hints = vec!["name one with --set-column PARAMETER=path, =name or =text".into()];
                    return Err(self.wrong(what, hints));
                };
                file.push((message.to_owned(), FilePart::Text));
            }
            [one] => {
                let part = if one.path == Some(Access::Read) { FilePart::Path } else { FilePart::Text };
                file.push((one.name.to_string(), part));
            }
            [first, ..] => {
                let names: Vec<String> = open.iter().map(|open| format!("`{}`", open.name)).collect();
                let what = format!("a file is one value, and the worker needs {}", names.join(", "));
                let hints = vec![
                    format!("name what each gets, such as --set-column {}=path", first.name),
                    format!("or give all files the same value with --param {}=VALUE", first.name),
                ];
                return Err(self.wrong(what, hints));
            }
        }
        self.file = file;
        Ok(())
    }

    /// Checks that each column that the command line names was in a row of JSON Lines. Other inputs have their columns
    /// before their rows.
    pub(crate) fn check_seen(&self) -> Result<(), Problem> {
        let seen = self.seen.borrow();
        let mut named = self.renamed.keys().chain(&self.ignored);
        let unseen = named.find(|column| !seen.contains(*column)).filter(|_| self.has_objects.get());
        match unseen {
            None => Ok(()),
            Some(column) => {
                let flag = if self.ignored.contains(column) { "--ignore-column" } else { "--set-column" };
                let hints = vec![format!("leave out its {flag}, or name another column")];
                Err(self.wrong(format!("no row has a column `{column}`"), hints))
            }
        }
    }

    /// Returns a row that could not be read, as input for another map.
    pub(crate) fn unreadable(&self, raw: Raw) -> Value {
        let found = match raw {
            // With the parameters that the earlier map gave it.
            Raw::Earlier(object) => object,
            raw => Map::from_iter([(ROW.to_owned(), raw.to_json())]),
        };
        self.with_constants(Value::Object(found))
    }

    fn with_constants(&self, mut found: Value) -> Value {
        if let Value::Object(object) = &mut found {
            for (name, value) in &self.constant_values {
                object.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
        found
    }

    /// Returns the input of a row.
    pub(crate) fn input(&self, content: Content) -> Result<Matched, Unmatched> {
        let mut input = Input::default();
        let mut apart = String::new();
        let found = match content {
            Content::Fields(fields) => {
                let mut found = Map::new();
                for (parameter, text) in self.fields.iter().zip(fields) {
                    let Some(parameter) = parameter else { continue };
                    found.insert(parameter.clone(), text.as_str().into());
                    if !(text.is_empty() && self.may_be_absent(parameter)) {
                        input.parameters.push((parameter.clone(), text));
                    }
                }
                Value::Object(found)
            }
            Content::Json(Value::Object(object)) => {
                let mut found = Map::new();
                self.has_objects.set(true);
                for (column, value) in without_failure(object) {
                    if self.renamed.contains_key(&column) || self.ignored.contains(&column) {
                        self.seen.borrow_mut().insert(column.clone());
                    }
                    let Some(name) = self.of_column(&column).map_err(Unmatched::All)? else { continue };
                    found.insert(name, value);
                }
                input.json = Some(Value::Object(found.clone()));
                Value::Object(found)
            }
            Content::Json(value) => {
                input.json = Some(value.clone());
                value
            }
            Content::File(FileRow { path, name, text, real, sha256 }) => {
                input.handed.push(real);
                let mut found = Map::new();
                for (parameter, part) in &self.file {
                    let value = match part {
                        FilePart::Path => path.clone(),
                        FilePart::Name => name.clone(),
                        FilePart::Text => text.clone().unwrap_or_default(),
                    };
                    found.insert(parameter.clone(), value.into());
                }
                apart = sha256;
                input.json = Some(Value::Object(found.clone()));
                Value::Object(found)
            }
        };
        input.read = self.read_parts(&input);
        input.parameters.extend(self.constants.iter().cloned());
        self.checked(input, apart, found)
    }

    /// Returns the parts of a row: all but the constants, which the operator has typed.
    fn read_parts(&self, row: &Input) -> Vec<ReadPart> {
        let fields = row.parameters.iter().map(|(name, _)| InputPart::Parameter(name.clone()));
        let json = row.json.iter().map(|_| InputPart::Json);
        fields.chain(json).map(|part| ReadPart { part, untrusted: !self.trusted }).collect()
    }

    /// Returns true if an empty field of this parameter means that the value is absent: the parameter is optional.
    fn may_be_absent(&self, name: &str) -> bool {
        self.worker.signature.declared && self.parameter(name).is_none_or(|parameter| !parameter.required)
    }

    fn checked(&self, input: Input, apart: String, found: Value) -> Result<Matched, Unmatched> {
        let (id, signature) = (&self.worker.id, &self.worker.signature);
        let given = Given { message: None, json: input.json.as_ref(), parameters: &input.parameters };
        let value = match signature::input_value(id, signature, given) {
            Ok(value) => value,
            Err(error) => {
                let found = match found {
                    Value::Object(_) => self.with_constants(found),
                    other => self.unreadable(Raw::Json(other)),
                };
                return Err(Unmatched::Row { reason: error.message, found });
            }
        };
        if let Err(error) = signature::validate_input(id, signature, &self.with_bound(&value)) {
            return Err(Unmatched::Row { reason: error.message, found: value });
        }
        let text = canonical(&value);
        // The same row may be called for with and without the operator's word for it: these are two runs.
        let trusted = if self.trusted { "trusted " } else { "" };
        let canonical = format!("{trusted}{text}{apart}");
        Ok(Matched { input, value, canonical })
    }

    /// Returns an input with the values that are added when its row starts.
    fn with_bound<'a>(&self, value: &'a Value) -> Cow<'a, Value> {
        let mut value = Cow::Borrowed(value);
        for (name, bound) in &self.bound {
            let is_bound = self.parameter(name).is_some() || !self.worker.signature.declared && name == INPUT;
            if is_bound && value.get(name).is_none_or(Value::is_null) {
                value.to_mut()[name] = bound.clone();
            }
        }
        value
    }
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns the text that identifies a row without an input, in place of [`Matched::canonical`].
pub(crate) fn broken_canonical(found: &Value) -> String {
    format!("broken {}", sha256(canonical(found).as_bytes()))
}
