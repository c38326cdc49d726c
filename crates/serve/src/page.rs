//! A program as a page that runs it (`docs/guides/pages.md`): the app, the engine and the program as files of a static site, or
//! as one file.

use crate::app;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::{Compression, GzBuilder};
use llm_do::core::schema::sha256;
use serde_json::{Map, Value, json};
use std::io::{self, Write as _};

/// The file of the engine in the app.
const ENGINE: &str = "engine.wasm";
/// Hexadecimal digits of a hash in the name of a file.
const DIGITS: usize = 16;
/// The places of the page's template.
const POLICY: &str = "__LLM_DO_POLICY__";
const NONCE: &str = "__NONCE__";
const TITLE: &str = "__LLM_DO_TITLE__";
const CONFIG: &str = "__LLM_DO_PAGE__";
const ENGINE_BYTES: &str = "__LLM_DO_ENGINE__";
const PROGRAM_BYTES: &str = "__LLM_DO_PROGRAM__";
/// The places of the service worker's template.
const FILES: &str = "__LLM_DO_FILES__";
const BUILD: &str = "__LLM_DO_BUILD__";

/// A program that a page opens.
#[derive(Clone, Debug, Default)]
pub struct PageProgram {
    /// The name of the program, which is the name of its folder in the page.
    pub name: String,
    /// The description of the program.
    pub description: Option<String>,
    /// The files by path, relative to the folder.
    pub files: Vec<(String, Vec<u8>)>,
}

/// A page to write.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The program. `None`: an empty page, in which visitors open their own programs.
    pub program: Option<PageProgram>,
    /// The model of all workers, if the author of the page chose one.
    pub model: Option<String>,
    /// The origins of models that the page may connect to, beside its own.
    pub connect: Vec<String>,
}

/// A part of the page that is not in the binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// The binary was built without the web app.
    #[error("this llm-do was built without the web app")]
    WithoutApp,
    /// The binary was built without the engine for pages.
    #[error("this llm-do was built without the engine for pages")]
    WithoutEngine,
}

/// A file of a page: its path, and its bytes.
pub type PageFile = (String, Vec<u8>);

impl Page {
    /// Returns the files of a static site.
    ///
    /// # Errors
    /// A part of the page is not in the binary.
    pub fn site(&self) -> Result<Vec<PageFile>, PageError> {
        let template = app::text("page.html").ok_or(PageError::WithoutApp)?;
        let worker = app::text("sw.js").ok_or(PageError::WithoutApp)?;
        let engine = app::compressed(ENGINE).ok_or(PageError::WithoutEngine)?;
        let engine_name = format!("assets/engine-{}.bin", short(engine));
        let mut files: Vec<PageFile> = app::assets();
        files.push((engine_name.clone(), engine.to_vec()));
        let mut program_name = None;
        if let Some(program) = &self.program {
            let packed = program.packed();
            let name = format!("assets/program-{}.bin", short(&packed));
            files.push((name.clone(), packed));
            program_name = Some(name);
        }
        let config = self.config(Some(&engine_name), program_name.as_deref());
        let nonce = short(config.as_bytes());
        let sources = format!(
            "script-src 'self' 'wasm-unsafe-eval'; worker-src 'self' blob:; style-src 'self' 'nonce-{nonce}'; \
             img-src 'self' data: blob:; connect-src 'self'{}",
            self.connect.iter().map(|origin| format!(" {origin}")).collect::<String>()
        );
        let page = filled(
            &template,
            &[(POLICY, &policy(&sources)), (NONCE, &nonce), (TITLE, &self.title()), (CONFIG, &config)],
        );
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        let build = short(format!("{page}{}", names.join(" ")).as_bytes());
        let worker = filled(&worker, &[(FILES, &names.join(" ")), (BUILD, &build)]);
        files.push(("sw.js".into(), worker.into_bytes()));
        files.push(("index.html".into(), page.into_bytes()));
        Ok(files)
    }

    /// Returns the page as one HTML file.
    ///
    /// # Errors
    /// A part of the page is not in the binary.
    pub fn single(&self) -> Result<String, PageError> {
        let template = app::text("single.html").ok_or(PageError::WithoutApp)?;
        let engine = app::compressed(ENGINE).ok_or(PageError::WithoutEngine)?;
        let config = self.config(None, None);
        let nonce = short(config.as_bytes());
        let hash = |name: &str| attribute(&template, name).ok_or(PageError::WithoutApp);
        let connect = if self.connect.is_empty() { "'none'".to_owned() } else { self.connect.join(" ") };
        let sources = format!(
            "script-src {} 'wasm-unsafe-eval'; worker-src blob:; style-src {} 'nonce-{nonce}'; img-src data: blob:; \
             connect-src {connect}",
            hash("llm-do-script")?,
            hash("llm-do-style")?
        );
        let program =
            self.program.as_ref().map(|program| STANDARD.encode(program.packed())).unwrap_or_default();
        Ok(filled(
            &template,
            &[
                (POLICY, &policy(&sources)),
                (NONCE, &nonce),
                (TITLE, &self.title()),
                (CONFIG, &config),
                (ENGINE_BYTES, &STANDARD.encode(engine)),
                (PROGRAM_BYTES, &program),
            ],
        ))
    }

    /// The settings that the page reads, as JSON that fits into a script element.
    fn config(&self, engine: Option<&str>, files: Option<&str>) -> String {
        let program = self.program.as_ref().map(|program| {
            json!({
                "name": program.name,
                "description": program.description,
                "sha256": sha256(program.json().as_bytes()),
                "files": files,
            })
        });
        let config =
            json!({"engine": engine, "program": program, "model": self.model, "connect": self.connect});
        config.to_string().replace('<', "\\u003c")
    }

    fn title(&self) -> String {
        let name = self.program.as_ref().map_or("llm-do", |program| &program.name);
        name.replace('&', "&amp;").replace('<', "&lt;")
    }
}

impl PageProgram {
    /// The files as the page reads them: text where they are text.
    fn json(&self) -> String {
        let file = |(path, bytes): &PageFile| match str::from_utf8(bytes) {
            Ok(text) => (path.clone(), json!({"text": text})),
            Err(_) => (path.clone(), json!({"base64": STANDARD.encode(bytes)})),
        };
        let files: Map<String, Value> = self.files.iter().map(file).collect();
        json!({"name": self.name, "files": files}).to_string()
    }

    fn packed(&self) -> Vec<u8> {
        compressed(self.json().as_bytes()).unwrap_or_default()
    }
}

/// Compresses bytes, without name and time: the same bytes give the same file.
fn compressed(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}

fn short(bytes: &[u8]) -> String {
    let mut hash = sha256(bytes);
    hash.truncate(DIGITS);
    hash
}

fn policy(sources: &str) -> String {
    format!("default-src 'none'; {sources}; base-uri 'none'; form-action 'none'")
}

/// Puts values into the places of a template, each once and in one pass: a value may contain the name of a place.
fn filled(template: &str, places: &[(&str, &str)]) -> String {
    let mut text =
        String::with_capacity(template.len() + places.iter().map(|(_, value)| value.len()).sum::<usize>());
    let mut rest = template;
    loop {
        let next = places.iter().filter_map(|(place, value)| Some((rest.find(place)?, *place, *value))).min();
        let Some((at, place, value)) = next else { break };
        text.push_str(&rest[..at]);
        text.push_str(value);
        rest = &rest[at + place.len()..];
    }
    text.push_str(rest);
    text
}

/// Returns the content of a `meta` element of the template.
fn attribute<'t>(template: &'t str, name: &str) -> Option<&'t str> {
    let (_, after) = template.split_once(&format!("name=\"{name}\" content=\""))?;
    Some(after.split_once('"')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_never_filled_itself() {
        let filled = filled("a __X__ b __Y__ c __X__", &[("__X__", "__Y__"), ("__Y__", "</script>")]);
        assert_eq!(filled, "a __Y__ b </script> c __Y__");
    }

    #[test]
    fn a_hostile_name_stays_in_its_script_element() {
        let program = PageProgram { name: "</script><script>alert(1)".into(), ..PageProgram::default() };
        let page = Page { program: Some(program), ..Page::default() };
        let config = page.config(None, None);
        assert!(!config.contains('<'), "{config}");
        let read: Value = serde_json::from_str(&config).expect("JSON");
        assert_eq!(read["program"]["name"], "</script><script>alert(1)");
        assert!(!page.title().contains('<'));
    }

    #[test]
    fn the_same_program_has_the_same_bytes() {
        let program = PageProgram {
            files: vec![("a.worker".into(), b"x".to_vec()), ("b.bin".into(), vec![255])],
            ..PageProgram::default()
        };
        assert_eq!(program.packed(), program.packed());
        assert!(program.json().contains("base64"));
    }
}
