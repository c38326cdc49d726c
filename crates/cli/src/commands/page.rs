//! `llm-do page`: a program as a page that runs it in the browser (docs/guides/pages.md).

use crate::{
    args::{Format, PageArgs},
    exit::{Complaint, Exit},
    program::{looked_at, reading_host, show_problem, surroundings},
    render::Output,
    visible,
};
use cap_std::{ambient_authority, fs::Dir};
use llm_do::{
    Problem, check_named,
    core::{authority::Protection, model::ModelName},
    make_named_folder,
    models::{origin_of_address, origin_of_provider, origins_of_providers},
    program::{Program, Start, source::plain, target},
    write_named,
};
use llm_do_serve::{Page, PageError, PageFile, PageProgram, definition_files};
use serde_json::json;
use std::{collections::BTreeMap, fs, io::Read as _, path::Path, sync::Arc};

/// Largest file that a page contains, and largest sum, in bytes.
const LARGEST: u64 = 4 << 20;
const LARGEST_SUM: usize = 32 << 20;
/// Longest name of a program.
const LONGEST_NAME: usize = 64;
/// The mark of a page of this command.
const MARK: &str = "id=\"llm-do-page\"";

/// Runs the command.
pub(crate) fn run(args: &PageArgs, output: &Output) -> Result<Exit, Complaint> {
    check_folder(&args.folder)?;
    let page = match args.empty {
        true => Page { connect: everywhere(), ..Page::default() },
        false => match page_of(args, output)? {
            Ok(page) => page,
            Err(exit) => return Ok(exit),
        },
    };
    let page = Page { connect: connected(page.connect, &args.connect)?, ..page };
    let files: Vec<PageFile> = match args.single {
        true => vec![("index.html".into(), page.single().map_err(|error| unbuilt(&error))?.into_bytes())],
        false => page.site().map_err(|error| unbuilt(&error))?,
    };
    make_named_folder(&args.folder).map_err(|error| Complaint::unwritten(&args.folder, &error))?;
    let mut bytes = 0;
    // The page itself is written last: it names only files that are there.
    for (name, content) in &files {
        let file = args.folder.join(name);
        write_named(&file, content)
            .map_err(|error| Complaint { exit: Exit::Failed, ..Complaint::unwritten(&file, &error) })?;
        bytes += content.len();
    }
    report(args, &page, bytes, output);
    Ok(Exit::Done)
}

/// Refuses a folder with files that are not an older page.
fn check_folder(folder: &Path) -> Result<(), Complaint> {
    check_named(folder).map_err(|error| Complaint::unwritten(folder, &error))?;
    let is_empty = fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none());
    let index = fs::read_to_string(folder.join("index.html")).unwrap_or_default();
    if is_empty || index.contains(MARK) {
        return Ok(());
    }
    Err(Complaint::wrong(format!(
        "the folder `{}` has files that are not a page of llm-do",
        folder.display()
    ))
    .hint("name a new folder"))
}

/// Loads the program. The inner error is the exit code of a program that does not load, which was shown.
fn page_of(args: &PageArgs, output: &Output) -> Result<Result<Page, Exit>, Complaint> {
    let request = looked_at(&args.program);
    let around =
        surroundings().map_err(|error| Complaint::wrong(format!("no current directory: {error}")))?;
    let loaded = target::find(&request, &around).map_err(Problem::Program).and_then(|target| {
        let host = reading_host(&request, &around, &target)?;
        let start = target.source.start.clone();
        let alone = target.source.work.is_some();
        Program::load_any(target.source, host)
            .map(|loaded| (loaded.program, start, alone))
            .map_err(Problem::Program)
    });
    let (program, start, alone) = match loaded {
        Ok(loaded) => loaded,
        Err(problem) => return Ok(Err(show_problem(&problem, output))),
    };
    let elsewhere: Vec<String> = program
        .loaded()
        .iter()
        .filter(|worker| worker.root != *program.root())
        .map(|worker| worker.id.to_string())
        .collect();
    if let Some(worker) = elsewhere.first() {
        return Err(Complaint::wrong(format!(
            "the worker `{worker}` is in a library outside of the program's folder, which the page can't contain"
        ))
        .hint("copy the library into the program"));
    }
    let root = Path::new(program.root().as_str());
    let mut files: BTreeMap<String, Vec<u8>> = match (&start, alone) {
        // The files beside a lone worker belong to something else. A page starts it as the entry of a project.
        (Start::File(file), true) => {
            let bytes = fs::read(root.join(file)).map_err(|error| unread(file, &error.to_string()))?;
            [("main.worker".to_owned(), bytes)].into()
        }
        _ => definition_files(vec![Arc::clone(program.protection())])
            .map_err(|error| unread(program.root().as_str(), &error))?
            .into_iter()
            .collect(),
    };
    for path in &args.include {
        include(root, path, &mut files)?;
    }
    let sum: usize = files.values().map(Vec::len).sum();
    if sum > LARGEST_SUM {
        return Err(Complaint::wrong(format!(
            "the files of the page have {sum} bytes, more than {LARGEST_SUM}"
        )));
    }
    let manifest = program.manifest();
    let name = manifest.name.clone().unwrap_or_else(|| match (&start, alone) {
        (Start::File(file), true) => file.trim_end_matches(".worker").to_owned(),
        _ => program.root().name().to_owned(),
    });
    Ok(Ok(Page {
        connect: origins_of(args.model.as_ref(), &program),
        model: args.model.as_ref().map(ToString::to_string),
        program: Some(PageProgram {
            name: named(&name),
            description: manifest
                .description
                .clone()
                .or_else(|| program.entry().description.as_ref().map(ToString::to_string)),
            files: files.into_iter().collect(),
        }),
    }))
}

/// The name of a program as that of a folder.
fn named(name: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = name.chars().map(fits).take(LONGEST_NAME).collect();
    let name = name.trim_start_matches(['.', '-', '_']);
    if name.is_empty() { "program".into() } else { name.into() }
}

/// The origins of the chosen model, else of all models that the program names. A program that names none may be given any.
fn origins_of(model: Option<&ModelName>, program: &Program) -> Vec<String> {
    let workers = program.loaded();
    let models: Vec<&ModelName> = match model {
        Some(model) => vec![model],
        None => workers.iter().flat_map(|worker| &worker.models).chain(program.models()).collect(),
    };
    if models.is_empty() {
        return everywhere();
    }
    let origin = |model: &ModelName| match program.providers().get(model.provider()) {
        Some(declared) => origin_of_address(&declared.base_url),
        None => origin_of_provider(model.provider()),
    };
    models.into_iter().filter_map(origin).collect()
}

/// The origins of all known providers, and any server on the visitor's machine.
fn everywhere() -> Vec<String> {
    let mut origins = origins_of_providers();
    origins.extend(["http://127.0.0.1:*".to_owned(), "http://localhost:*".to_owned()]);
    origins
}

/// The origins of both lists, sorted.
fn connected(mut origins: Vec<String>, more: &[String]) -> Result<Vec<String>, Complaint> {
    for text in more {
        match origin_of_address(text) {
            Some(origin) if origin == text.trim_end_matches('/') => origins.push(origin),
            _ => {
                return Err(Complaint::wrong(format!("`{text}` is no origin"))
                    .hint("write scheme, host and port, such as https://models.example.org:8443"));
            }
        }
    }
    origins.sort_unstable();
    origins.dedup();
    Ok(origins)
}

/// Adds a file or a folder of the program.
fn include(root: &Path, path: &str, files: &mut BTreeMap<String, Vec<u8>>) -> Result<(), Complaint> {
    let shown = visible::line(path).into_owned();
    let wrong = |why: &str| Complaint::wrong(format!("--include {shown}: {why}"));
    let path = plain(path).map_err(|error| wrong(&error.to_string()))?;
    // By the descriptor of the folder: no link leads out of it.
    let dir = Dir::open_ambient_dir(root, ambient_authority()).map_err(|error| wrong(&error.to_string()))?;
    let mut left = vec![path.clone()];
    let first = path;
    while let Some(path) = left.pop() {
        let hidden = |part: &str| Protection::is_version_control(part) || Protection::is_invisible(part);
        if path.split('/').any(hidden) {
            if path == first {
                return Err(wrong("it is a secret, or belongs to version control or to llm-do"));
            }
            continue;
        }
        let found = dir.symlink_metadata(&path).map_err(|error| wrong(&error.to_string()))?;
        if found.is_dir() {
            for entry in dir.read_dir(&path).map_err(|error| wrong(&error.to_string()))? {
                let entry = entry.map_err(|error| wrong(&error.to_string()))?;
                let name = entry.file_name().into_string().map_err(|_| wrong("a name is not UTF-8"))?;
                left.push(format!("{path}/{name}"));
            }
        } else if found.is_file() && found.len() <= LARGEST {
            let mut bytes = Vec::new();
            let file = dir.open(&path).map_err(|error| wrong(&error.to_string()))?;
            file.take(LARGEST).read_to_end(&mut bytes).map_err(|error| wrong(&error.to_string()))?;
            files.insert(path, bytes);
        } else {
            let why = if found.is_file() { "has more than 4 MiB" } else { "is a link or no regular file" };
            return Err(wrong(&format!("`{}` {why}", visible::line(&path))));
        }
    }
    Ok(())
}

fn unread(what: &str, why: &str) -> Complaint {
    Complaint::wrong(format!("cannot read {}: {}", visible::line(what), visible::line(why)))
}

fn unbuilt(error: &PageError) -> Complaint {
    let complaint = Complaint { exit: Exit::Failed, ..Complaint::wrong(error.to_string()) };
    complaint.hint("a released llm-do has both; in a clone: `web/ci build`, `scripts/page-engine`, and build llm-do again")
}

/// Says what was written, and what is public now.
fn report(args: &PageArgs, page: &Page, bytes: usize, output: &Output) {
    let files: Vec<&str> =
        page.program.iter().flat_map(|program| &program.files).map(|(path, _)| path.as_str()).collect();
    if output.format != Format::Text {
        output.print_json(&json!({
            "folder": args.folder,
            "bytes": bytes,
            "files": files,
            "connect": page.connect,
            "model": page.model,
        }));
        return;
    }
    let mut text = String::new();
    for file in &files {
        text.push_str(&format!("{}\n", visible::line(file)));
    }
    output.print(&text);
    let connect =
        if page.connect.is_empty() { "nothing but its own site".to_owned() } else { page.connect.join(", ") };
    let folder = args.folder.display().to_string();
    output.note(&format!(
        "{}: {} kB; it connects to {}",
        visible::line(&folder),
        bytes.div_ceil(1000),
        visible::line(&connect)
    ));
    if !files.is_empty() {
        output.note("the files above are public for everyone who can open the page");
    }
    if !args.single {
        output.note("a browser opens the page from a web server only, not from a file: `python3 -m http.server` in the folder");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_of_a_folder() {
        assert_eq!(named("../My program"), "My-program");
        assert_eq!(named("…"), "program");
        assert_eq!(named("desk-2.0"), "desk-2.0");
    }

    #[test]
    fn an_origin_has_no_path_and_no_policy() {
        let add = |more: &str| connected(Vec::new(), &[more.to_owned()]);
        assert_eq!(add("http://127.0.0.1:8080").ok(), Some(vec!["http://127.0.0.1:8080".to_owned()]));
        for wrong in ["*", "https://a.example/path", "https://a.example; script-src *", "data:", "a.example"]
        {
            assert!(add(wrong).is_err(), "{wrong}");
        }
    }
}
