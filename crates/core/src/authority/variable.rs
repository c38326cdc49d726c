//! Environment variables that no foreign code gets.

/// Why a variable can't be given to code; `None` if it can.
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
