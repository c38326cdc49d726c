//! Checks that scripts of `sed` and `awk` among the arguments only select and change lines.

/// Returns true if an awk script may run programs, or read or write files. Scripts are not distinguished from file
/// names, because the searched patterns are rare in file names.
pub(super) fn awk(arguments: &[String]) -> bool {
    let signs = ["system", "|", ">", "getline", "@"];
    arguments.iter().any(|word| signs.iter().any(|sign| word.contains(sign)))
}

/// Returns true if a sed command line has a script that is not plain or not visible, or changes files.
pub(super) fn sed(arguments: &[String]) -> bool {
    let mut scripts = Vec::new();
    let mut operands = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) =
                long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            if long.is_empty() {
                // Nothing but operands from here on, unless it was the value of something.
                continue;
            } else if "expression".starts_with(name) {
                scripts.extend(value.or_else(|| words.next().map(String::as_str)));
            } else if "line-length".starts_with(name) && value.is_none() {
                words.next();
            }
            continue;
        }
        let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            operands.push(word.as_str());
            continue;
        };
        for (at, letter) in letters.char_indices() {
            let rest = &letters[at + letter.len_utf8()..];
            match letter {
                'e' => {
                    scripts.extend(if rest.is_empty() {
                        words.next().map(String::as_str)
                    } else {
                        Some(rest)
                    });
                    break;
                }
                'l' => {
                    if rest.is_empty() {
                        words.next();
                    }
                    break;
                }
                'n' | 'E' | 'r' | 's' | 'u' | 'z' => {}
                // `-i` and `-f`, and any other option.
                _ => return true,
            }
        }
    }
    if scripts.is_empty() {
        scripts.extend(operands.first());
    }
    !scripts.iter().all(|script| plain(script))
}

/// Returns true if a script consists of plain commands: `p`, `d`, `s/a/b/g` and the like, with addresses.
fn plain(script: &str) -> bool {
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ';', '\n']);
        if rest.is_empty() {
            return true;
        }
        let Some(after) = command(rest) else { return false };
        let after = after.trim_start_matches([' ', '\t']);
        if !after.is_empty() && !after.starts_with([';', '\n']) {
            return false;
        }
        rest = after;
    }
}

/// Returns the rest of the text after a plain command, or `None` if the command is not plain.
fn command(text: &str) -> Option<&str> {
    let mut rest = address(text)?;
    if let Some(after) = rest.strip_prefix(',') {
        let end = address(after)?;
        if end.len() == after.len() {
            return None;
        }
        rest = end;
    }
    let rest = rest.trim_start_matches([' ', '!']);
    let name = rest.chars().next()?;
    let after = &rest[name.len_utf8()..];
    match name {
        'p' | 'P' | 'd' | 'D' | 'q' | 'Q' | 'n' | 'N' | 'g' | 'G' | 'h' | 'H' | 'x' | '=' => Some(after),
        's' | 'y' => {
            let delimiter = after.chars().next().filter(|c| c.is_ascii_punctuation() && *c != '\\')?;
            let after = &after[1..];
            let after = until(after, delimiter, name == 's')?;
            let after = until(after, delimiter, false)?;
            let flags = if name == 's' { "gpiIMm0123456789" } else { "" };
            Some(after.trim_start_matches(|c| flags.contains(c)))
        }
        _ => None,
    }
}

/// Returns the rest of the text after an address; the whole text if it starts with none.
fn address(text: &str) -> Option<&str> {
    if let Some(after) = text.strip_prefix('/') {
        return until(after, '/', true).map(|rest| rest.trim_start_matches('I'));
    }
    if let Some(after) = text.strip_prefix('$') {
        return Some(after);
    }
    // `\cREc`.
    if text.starts_with('\\') {
        return None;
    }
    let digits = |text: &'_ str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let rest = &text[digits(text)..];
    match rest.strip_prefix(['~', '+']) {
        Some(step) => Some(&step[digits(step)..]),
        None => Some(rest),
    }
}

/// Returns the rest of the text after the delimiter. Within brackets the delimiter may or may not end a pattern,
/// depending on the implementation, so the function returns `None` for such a pattern.
fn until(text: &str, delimiter: char, pattern: bool) -> Option<&str> {
    let mut chars = text.char_indices();
    let mut in_brackets = false;
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => {
                chars.next()?;
            }
            '\n' => return None,
            c if c == delimiter => {
                return (!in_brackets).then(|| &text[at + c.len_utf8()..]);
            }
            '[' if pattern => in_brackets = true,
            ']' => in_brackets = false,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    fn sed(arguments: &[&str]) -> bool {
        super::sed(&arguments.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn plain_scripts_of_sed_are_plain() {
        for script in [
            "p",
            "1,5p",
            "$d",
            "/a/d",
            "/a/,/b/p",
            "s/a/b/",
            "s/a/b/g",
            "s|/x|/y|gI",
            "1~2d",
            "2,+3p",
            "5!d",
            "y/ab/cd/",
            "s/e/w/; s/w/e/",
            "1p;2p",
            "s/[a-z]x/y/",
            "s/a\\/b/c/",
            "=",
            "$!N",
            "s/a/b/2p",
        ] {
            assert!(!sed(&["-n", script, "file"]), "{script}");
            assert!(!sed(&["-ne", script, "file"]), "{script}");
            assert!(!sed(&["--expression", script, "w file"]), "{script}");
        }
    }

    #[test]
    fn scripts_of_sed_that_run_read_or_write_are_not() {
        for script in [
            "e",
            "1e id",
            "s/a/b/e",
            "s/a/b/ge",
            "s/a/id/ e",
            "w out",
            "s/a/b/w out",
            "s/a/b/gw out",
            "r /etc/passwd",
            "R x",
            "W x",
            "1,2w x",
            "p;e id",
            "p\ne id",
            "$e id",
            "/a/e id",
            "s/a/b/;w x",
            "s,a,b,e",
            "{p;e}",
            "b x",
            ": x",
            "a\\\ntext",
            "s/[/]x/y/e",
            "s/a[/b/]/e",
            "\\cacd",
            "s\\a\\b\\e",
            "1~2e",
            "!e",
            "F;e id",
            "s/a/b/m;e",
            "v",
            "y/a/b/e",
            "p e",
            "s/a/b\nc/e",
            "z",
        ] {
            assert!(sed(&[script, "file"]), "{script}");
            assert!(sed(&["-n", "-e", "p", "-e", script, "file"]), "{script}");
            assert!(sed(&[&format!("--expr={script}"), "file"]), "{script}");
        }
        assert!(sed(&["-i", "p", "x"]) && sed(&["-f", "x"]) && sed(&["-ni", "p", "x"]) && sed(&["-nf", "x"]));
        assert!(sed(&["-n", "--", "e", "x"]));
    }

    #[test]
    fn scripts_of_awk_that_run_read_or_write_are_not_plain() {
        let awk = |script: &str| super::awk(&[script.to_owned()]);
        for script in ["{print $1}", "NR==2", "{s+=$1} END {print s}", "/a/ && $2 < 3"] {
            assert!(!awk(script), "{script}");
        }
        for script in [
            "BEGIN{system(\"id\")}",
            "{print | \"sh\"}",
            "{print > \"f\"}",
            "{\"id\" | getline x}",
            "@load \"x\"",
            "{@f()}",
            "{getline < \"f\"}",
        ] {
            assert!(awk(script), "{script}");
        }
    }
}
