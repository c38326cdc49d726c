//! Environment variables that foreign code never gets, and headers that never carry keys.

/// The reason why a variable can't be given to code; `None` if it can.
pub fn variable_refused(name: &str) -> Option<&'static str> {
    const PREFIXES: &[&str] = &["LD_", "DYLD_", "PYTHON", "GIT_", "LLM_DO_", "LC_"];
    const LOADERS: &[&str] = &[
        "BASH_ENV",
        "CLASSPATH",
        "ENV",
        "GCONV_PATH",
        "GLIBC_TUNABLES",
        "IFS",
        "JAVA_TOOL_OPTIONS",
        "MALLOC_CONF",
        "NODE_OPTIONS",
        "NODE_PATH",
        "OPENSSL_CONF",
        "OPENSSL_ENGINES",
        "OPENSSL_MODULES",
        "PERL5LIB",
        "PERL5OPT",
        "RUBYLIB",
        "RUBYOPT",
    ];
    const SET: &[&str] = &[
        "PATH",
        "HOME",
        "TMPDIR",
        "TERM",
        "TZ",
        "LANG",
        "LANGUAGE",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
    ];
    let upper = name.to_uppercase();
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_name {
        Some("it is not the name of a variable")
    } else if SET.contains(&upper.as_str()) || upper.starts_with("LC_") {
        Some("llm-do sets it for each process")
    } else if LOADERS.contains(&upper.as_str()) || PREFIXES.iter().any(|prefix| upper.starts_with(prefix)) {
        Some("it decides what a process loads or runs")
    } else {
        None
    }
}

/// The reason why a header can't carry a key of `sandbox.keys`; `None` if it can. The value of such a header would
/// change how its message is parsed.
pub fn key_header_refused(name: &str) -> Option<&'static str> {
    const OF_THE_MESSAGE: &[&str] = &[
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "expect",
        "host",
        "if-range",
        "keep-alive",
        "range",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    let lower = name.to_ascii_lowercase();
    if !is_token(name) {
        Some("it is no name of a header")
    } else if OF_THE_MESSAGE.contains(&&*lower) || lower.starts_with("proxy-") {
        Some("it belongs to the connection or the message")
    } else {
        None
    }
}

/// Returns true if a text is a token of HTTP (RFC 9110 §5.6.2), the syntax of names of headers and schemes.
pub fn is_token(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !text.is_empty() && text.chars().all(is_letter)
}
