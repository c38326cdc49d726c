//! Names of models that the operator has downloaded, the part after `local:` (docs/guides/local-models.md).

/// Returns true if the name is that of a downloaded model, and not a file's path: `NAME` of the catalogue, or
/// `OWNER/REPO:LABEL` of the hub. Each part is a safe file name.
pub fn is_downloaded(name: &str) -> bool {
    match hub_parts(name) {
        Some(parts) => parts.iter().all(|part| is_part(part)),
        None => is_part(name),
    }
}

/// Splits a name into `OWNER`, `REPO` and `LABEL`, if it has this form.
pub fn hub_parts(name: &str) -> Option<[&str; 3]> {
    let (owner, rest) = name.split_once('/')?;
    let (repo, label) = rest.split_once(':')?;
    Some([owner, repo, label])
}

/// Returns true if the part can be a file name without its extension: no separator, no leading dot, and no extension of
/// its own.
pub fn is_part(part: &str) -> bool {
    !part.is_empty()
        && !part.starts_with('.')
        && !part.ends_with(".gguf")
        && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::is_downloaded;

    #[test]
    fn names_are_told_from_paths() {
        for name in ["smollm2-135m-instruct", "Qwen/Qwen3-4B-GGUF:Q4_K_M", "a/b.c:d_e"] {
            assert!(is_downloaded(name), "{name}");
        }
        for path in [
            "",
            "x.gguf",
            "./x",
            "a/b",
            "a/b:c.gguf",
            "../b:c",
            "a/..:c",
            "a/b:..",
            "a/b:c/d",
            "a/b/c:d",
            "/b:c",
            "a/b:",
            "a b",
            "a/b:c:d",
        ] {
            assert!(!is_downloaded(path), "{path}");
        }
    }
}
