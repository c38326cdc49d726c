//! The files of the web app (`web/`), which are inside the binary if the app was built before it.

use crate::error::{ApiError, Code};
use axum::{
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use flate2::read::GzDecoder;
use std::{io::Read, sync::OnceLock};

/// A file of the app.
struct File {
    /// The path of the file below `web/dist`.
    name: &'static str,
    etag: &'static str,
    /// The size of the file before compression, in bytes.
    bytes: usize,
    gzip: &'static [u8],
}

const FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/app_files.rs"));

/// The placeholder in the app's page that is replaced by a fresh nonce.
const NONCE: &str = "__NONCE__";
/// The placeholder in the app's page that is replaced by its opener: the user or another page.
const OPENED_BY: &str = "__OPENED_BY__";
/// The page that is served if the app is not in the binary.
const WITHOUT_APP: &str = include_str!("app/without.html");

impl File {
    fn find(name: &str) -> Option<&'static Self> {
        FILES.iter().find(|file| file.name == name)
    }

    fn plain(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes);
        // It was compressed by the build of this binary.
        let _ = GzDecoder::new(self.gzip).read_to_end(&mut bytes);
        bytes
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.plain()).into_owned()
    }
}

/// The template of a run's page as a single file, if the app is in the binary. See `llm_do::records::page`.
pub fn export_template() -> Option<&'static str> {
    static TEMPLATE: OnceLock<Option<String>> = OnceLock::new();
    TEMPLATE.get_or_init(|| File::find("export.html").map(File::text)).as_deref()
}

/// The text of a file of the app, if the app is in the binary.
pub(crate) fn text(name: &str) -> Option<String> {
    File::find(name).map(File::text)
}

/// The bytes of a file of the app, compressed with gzip.
pub(crate) fn compressed(name: &str) -> Option<&'static [u8]> {
    File::find(name).map(|file| file.gzip)
}

/// The files with a hash of their content in their names, for pages that run the engine themselves.
pub(crate) fn assets() -> Vec<(String, Vec<u8>)> {
    let assets = FILES
        .iter()
        .filter(|file| file.name.starts_with("assets/") && !file.name.starts_with("assets/index-"));
    assets.map(|file| (file.name.to_owned(), file.plain())).collect()
}

/// Returns the app's page, which contains whether another page has opened it. Such a page could have put a token of its
/// own into the link.
pub(crate) fn index(asked: &HeaderMap) -> Response {
    static PAGE: OnceLock<Option<String>> = OnceLock::new();
    let page = PAGE.get_or_init(|| File::find("index.html").map(File::text)).as_deref();
    let mut random = [0; 16];
    if let Err(error) = getrandom::fill(&mut random) {
        return ApiError::internal(error).into_response();
    }
    let nonce: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let site = asked.get("sec-fetch-site").map(HeaderValue::as_bytes);
    let by_another = site.is_some_and(|site| ![&b"same-origin"[..], b"none"].contains(&site));
    let opened_by = if by_another { "another page" } else { "user" };
    let page = page.unwrap_or(WITHOUT_APP).replace(NONCE, &nonce).replace(OPENED_BY, opened_by);
    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data: blob:; connect-src 'self'; \
         font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let mut response = ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response();
    let headers = response.headers_mut();
    // Hexadecimal digits among constants.
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    // A page that opens this one gets no handle on it.
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    response
}

/// A file of the app. Its name holds a hash of its content, so it never changes.
pub(crate) fn asset(name: &str, asked: &HeaderMap) -> Response {
    let Some(file) = File::find(&format!("assets/{name}")) else {
        return ApiError::new(Code::NotFound, "the app has no such file").into_response();
    };
    let has = |header: header::HeaderName, wanted: &str| {
        let values = asked.get_all(header).into_iter().filter_map(|value| value.to_str().ok());
        values
            .flat_map(|values| values.split(','))
            .any(|value| value.split(';').next().unwrap_or_default().trim() == wanted)
    };
    let is_known = has(header::IF_NONE_MATCH, file.etag);
    let zipped = has(header::ACCEPT_ENCODING, "gzip");
    let mut response = match (is_known, zipped) {
        (true, _) => StatusCode::NOT_MODIFIED.into_response(),
        (false, true) => ([(header::CONTENT_ENCODING, "gzip")], file.gzip).into_response(),
        (false, false) => file.plain().into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind(file.name)));
    headers.insert(header::ETAG, HeaderValue::from_static(file.etag));
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
    headers.insert(header::CACHE_CONTROL, forever);
    response
}

/// The content type of a file by its name.
fn kind(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, end)| end) {
        Some("html") => "text/html; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("json" | "map") => "application/json",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("woff2") => "font/woff2",
        Some("wasm") => "application/wasm",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
