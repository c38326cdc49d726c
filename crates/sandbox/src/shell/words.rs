//! The words of a command, by the grammar of POSIX (Shell Command Language, 2.2 and 2.13), without any further
//! function of a shell: expansions and operators are refused with a hint.

use std::fmt;

/// The longest command, in bytes.
pub const LONGEST: usize = 64 * 1024;

/// A word: its text, with wildcards where a pattern is expanded. Two texts are never adjacent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// `*`
    Any,
    /// `?`
    One,
    /// `[a-z]`: ranges of characters, each with its ends.
    Set {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

/// The reason why a command can't run without a shell, and the alternative.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {instead}")]
pub struct NotWords {
    /// The obstacle.
    pub what: String,
    /// The alternative, as a hint.
    pub instead: &'static str,
}

impl NotWords {
    fn new(what: impl Into<String>, instead: &'static str) -> Self {
        Self { what: what.into(), instead }
    }
}

/// Splits a command into words.
///
/// # Errors
/// Syntax that needs a shell, an unterminated quote, or no words at all.
pub fn parse(command: &str) -> Result<Vec<Word>, NotWords> {
    if command.len() > LONGEST {
        return Err(NotWords::new(
            format!("the command has {} bytes, and {LONGEST} are allowed", command.len()),
            "put long texts into a file",
        ));
    }
    let mut reader = Reader { rest: command.chars().peekable(), words: Vec::new(), word: None };
    reader.all()?;
    if reader.words.is_empty() {
        return Err(NotWords::new("the command is empty", "write a program and its arguments"));
    }
    Ok(reader.words)
}

struct Reader<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    words: Vec<Word>,
    /// The current word. It may be empty: `''` is a word.
    word: Option<Word>,
}

impl Reader<'_> {
    fn all(&mut self) -> Result<(), NotWords> {
        while let Some(c) = self.rest.next() {
            match c {
                ' ' | '\t' => self.words.extend(self.word.take()),
                '\'' => self.single()?,
                '"' => self.double()?,
                '\\' => self.escaped()?,
                '*' => self.add(Part::Any),
                '?' => self.add(Part::One),
                '[' => self.bracket()?,
                '~' | '#' if self.word.is_none() => return Err(refused(c)),
                c if MEANT_BY_A_SHELL.contains(c) => return Err(refused(c)),
                c if c.is_control() => return Err(refused(c)),
                c => self.push(c),
            }
        }
        self.words.extend(self.word.take());
        Ok(())
    }

    fn push(&mut self, c: char) {
        self.text().push(c);
    }

    /// Returns the text at the end of the current word, to append to.
    fn text(&mut self) -> &mut String {
        let parts = &mut self.word.get_or_insert_with(|| Word(Vec::new())).0;
        if !matches!(parts.last(), Some(Part::Text(_))) {
            parts.push(Part::Text(String::new()));
        }
        match parts.last_mut() {
            Some(Part::Text(text)) => text,
            _ => unreachable!("a text was put there"),
        }
    }

    fn add(&mut self, part: Part) {
        let parts = &mut self.word.get_or_insert_with(|| Word(Vec::new())).0;
        // `''*` has no text.
        if matches!(parts.last(), Some(Part::Text(text)) if text.is_empty()) {
            parts.pop();
        }
        // `**` is `*` to a shell.
        if part != Part::Any || parts.last() != Some(&Part::Any) {
            parts.push(part);
        }
    }

    /// Begins a word with an empty text.
    fn touch(&mut self) {
        let word = self.word.get_or_insert_with(|| Word(Vec::new()));
        if word.0.is_empty() {
            word.0.push(Part::Text(String::new()));
        }
    }

    fn single(&mut self) -> Result<(), NotWords> {
        self.touch();
        loop {
            match self.rest.next() {
                Some('\'') => return Ok(()),
                Some('\0') => return Err(refused('\0')),
                Some(c) => self.push(c),
                None => return Err(open('\'')),
            }
        }
    }

    fn double(&mut self) -> Result<(), NotWords> {
        self.touch();
        loop {
            let Some(c) = self.rest.next() else { return Err(open('"')) };
            match c {
                '"' => return Ok(()),
                '$' | '`' | '\0' => return Err(refused(c)),
                '\\' => match self.rest.next() {
                    Some('\n') => {}
                    Some(c @ ('$' | '`' | '"' | '\\')) => self.push(c),
                    Some('\0') => return Err(refused('\0')),
                    Some(c) => {
                        self.push('\\');
                        self.push(c);
                    }
                    None => return Err(open('"')),
                },
                c => self.push(c),
            }
        }
    }

    fn escaped(&mut self) -> Result<(), NotWords> {
        match self.rest.next() {
            // The line continues.
            Some('\n') => Ok(()),
            Some('\0') => Err(refused('\0')),
            Some(c) => {
                self.push(c);
                Ok(())
            }
            None => {
                Err(NotWords::new("the command ends in `\\`", "remove it, or write `\\\\` for a backslash"))
            }
        }
    }

    /// Reads `[a-z]`; a `[` without a `]` in its word is an ordinary character.
    fn bracket(&mut self) -> Result<(), NotWords> {
        let before = self.rest.clone();
        match self.set()? {
            Some(set) => self.add(set),
            None => {
                self.rest = before;
                self.push('[');
            }
        }
        Ok(())
    }

    fn set(&mut self) -> Result<Option<Part>, NotWords> {
        let negated = self.rest.next_if(|c| matches!(c, '!' | '^')).is_some();
        // Quoted characters are marked, because a quoted `-` or `]` has no special meaning.
        let mut members: Vec<(char, bool)> = Vec::new();
        loop {
            let Some(c) = self.rest.next() else { return Ok(None) };
            match c {
                ']' if !members.is_empty() => break,
                '[' if matches!(self.rest.peek(), Some(':' | '.' | '=')) => {
                    return Err(NotWords::new(
                        "a class of characters like `[:alpha:]`",
                        "write the range, like `[a-z]`",
                    ));
                }
                ' ' | '\t' | '/' => return Ok(None),
                '\'' => loop {
                    match self.rest.next() {
                        Some('\'') => break,
                        Some(c) if c != '\0' => members.push((c, true)),
                        _ => return Ok(None),
                    }
                },
                '\\' => match self.rest.next() {
                    Some(c) if c != '\0' && c != '\n' => members.push((c, true)),
                    _ => return Ok(None),
                },
                // The parser that continues after the `[` reports the problem.
                '"' => return Err(NotWords::new("a `\"` within `[...]`", "use single quotes there")),
                c if MEANT_BY_A_SHELL.contains(c) || c.is_control() => return Err(refused(c)),
                c => members.push((c, false)),
            }
        }
        let mut ranges = Vec::new();
        let mut at = 0;
        while let Some(&(low, _)) = members.get(at) {
            match (members.get(at + 1), members.get(at + 2)) {
                (Some(('-', false)), Some(&(high, _))) => {
                    ranges.push((low, high));
                    at += 3;
                }
                _ => {
                    ranges.push((low, low));
                    at += 1;
                }
            }
        }
        if ranges.is_empty() || ranges.iter().any(|(_, c)| *c == '/') {
            return Ok(None);
        }
        Ok(Some(Part::Set { negated, ranges }))
    }
}

/// Characters that have a special meaning for a shell when unquoted.
const MEANT_BY_A_SHELL: &str = "|&;<>()$`{}\n";

fn refused(c: char) -> NotWords {
    let (what, instead) = match c {
        '|' => (
            "`|` is not available, because no shell runs the command",
            "call shell once for each program; what one prints can be written to a file and given to the next",
        ),
        '&' | ';' | '\n' => (
            "`&`, `;` and new lines are not available, because no shell runs the command",
            "call shell once for each command, and look at the exit code of one before the next",
        ),
        '<' => (
            "`<` is not available, because no shell runs the command",
            "name the file as an argument; standard input is always empty",
        ),
        '>' => (
            "`>` is not available, because no shell runs the command",
            "what the command prints is returned; write it with write_file",
        ),
        '(' | ')' => (
            "parentheses are not available, because no shell runs the command",
            "put them between single quotes if they belong to an argument",
        ),
        '$' => (
            "variables and `$(...)` are not expanded, because no shell runs the command",
            "write the value itself; put a `$` that belongs to an argument between single quotes",
        ),
        '`' => (
            "a command within a command is not run, because no shell runs this one",
            "call shell for it first; put a backtick that belongs to an argument between single quotes",
        ),
        '{' | '}' => (
            "braces are not expanded, because no shell runs the command",
            "write all the words; put braces that belong to an argument between single quotes",
        ),
        '~' => (
            "`~` is not expanded, because no shell runs the command",
            "write a path from the working directory or from `/`",
        ),
        '#' => ("a word that begins with `#` is a comment to a shell", "leave it out, or quote it"),
        '\0' => ("a null character is in the command", "leave it out; no argument can hold one"),
        _ => ("a control character is in the command", "leave it out, or quote it"),
    };
    NotWords::new(what, instead)
}

fn open(quote: char) -> NotWords {
    NotWords::new(
        format!("a `{quote}` is not closed"),
        "close it, or write `\\` before it if it belongs to an argument",
    )
}

impl Word {
    /// Creates a word of this text, without wildcards.
    pub fn literal(text: impl Into<String>) -> Self {
        Self(vec![Part::Text(text.into())])
    }

    /// Returns the text of the word, if it has no wildcards.
    pub fn text(&self) -> Option<&str> {
        match self.0.as_slice() {
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns the text of the word with `?` for each wildcard, for checks that don't read files.
    pub fn likeness(&self) -> String {
        self.0
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.as_str(),
                _ => "?",
            })
            .collect()
    }

    /// Returns the parts between its slashes.
    pub(crate) fn components(&self) -> Vec<Self> {
        let mut components = vec![Self(Vec::new())];
        for part in &self.0 {
            let Part::Text(text) = part else {
                components.last_mut().expect("there is one").0.push(part.clone());
                continue;
            };
            for (index, piece) in text.split('/').enumerate() {
                if index > 0 {
                    components.push(Self(Vec::new()));
                }
                if !piece.is_empty() {
                    components.last_mut().expect("there is one").0.push(Part::Text(piece.to_owned()));
                }
            }
        }
        for component in &mut components {
            if component.0.is_empty() {
                component.0.push(Part::Text(String::new()));
            }
        }
        components
    }

    /// Returns true if the whole text matches the pattern of the word. A wildcard matches any character.
    pub fn matches(&self, text: &str) -> bool {
        fits(&self.0, text)
    }

    /// Returns true if the name of a file matches the pattern of the word. A wildcard doesn't match a dot at the
    /// beginning.
    pub(crate) fn matches_name(&self, name: &str) -> bool {
        let named = matches!(self.0.first(), Some(Part::Text(text)) if text.starts_with('.'));
        (named || !name.starts_with('.')) && self.matches(name)
    }
}

/// Matches a text with parts. Backtracks to the last `*` only, because a longer match of an earlier one can't help.
fn fits(parts: &[Part], text: &str) -> bool {
    let (mut at, mut rest) = (0, text);
    let mut star: Option<(usize, &str)> = None;
    loop {
        let advanced = match parts.get(at) {
            Some(Part::Any) => {
                star = Some((at, rest));
                at += 1;
                continue;
            }
            Some(Part::Text(expected)) => rest.strip_prefix(expected.as_str()),
            Some(part) => rest.chars().next().filter(|c| part.takes(*c)).map(|c| &rest[c.len_utf8()..]),
            None if rest.is_empty() => return true,
            None => None,
        };
        if let Some(left) = advanced {
            rest = left;
            at += 1;
            continue;
        }
        let Some((back, from)) = star else { return false };
        let Some(c) = from.chars().next() else { return false };
        let from = &from[c.len_utf8()..];
        star = Some((back, from));
        (at, rest) = (back + 1, from);
    }
}

impl Part {
    fn takes(&self, c: char) -> bool {
        match self {
            Self::Set { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negated
            }
            Self::One => true,
            Self::Any | Self::Text(_) => false,
        }
    }
}

/// Formats the word as a user would type it: quoted where needed, so that it is parsed as the same word.
impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.0 {
            match part {
                Part::Text(text) => f.write_str(&quoted(text))?,
                Part::Any => f.write_str("*")?,
                Part::One => f.write_str("?")?,
                Part::Set { negated, ranges } => {
                    f.write_str(if *negated { "[!" } else { "[" })?;
                    for (low, high) in ranges {
                        f.write_str(&member(*low))?;
                        if low != high {
                            write!(f, "-{}", member(*high))?;
                        }
                    }
                    f.write_str("]")?;
                }
            }
        }
        Ok(())
    }
}

fn member(c: char) -> String {
    match c {
        '\'' => "\\'".to_owned(),
        c if c.is_alphanumeric() => c.to_string(),
        c => format!("'{c}'"),
    }
}

/// Quotes a text as one word of a command.
pub fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-./:=@%+,^".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Formats words in their normal form: one space between them, and quotes only where needed.
pub fn line(words: &[Word]) -> String {
    words.iter().map(Word::to_string).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(command: &str) -> Vec<String> {
        let words = parse(command).unwrap();
        words.iter().map(|word| word.text().expect("no wildcards").to_owned()).collect()
    }

    fn refusal(command: &str) -> String {
        parse(command).expect_err(command).to_string()
    }

    #[test]
    fn quotes_and_escapes_are_those_of_posix() {
        assert_eq!(texts("ls -l  a\tb "), ["ls", "-l", "a", "b"]);
        assert_eq!(texts(r#"a'b c'"d e"\ f"#), ["ab cd e f"]);
        assert_eq!(texts(r#"'' "" x''"#), ["", "", "x"]);
        assert_eq!(texts(r#"'\n' "\n\$\`\"\\" \n"#), ["\\n", "\\n$`\"\\", "n"]);
        assert_eq!(texts("'$HOME `x` | & ; < > ( ) { } ~ # *'").len(), 1);
        assert_eq!(texts("a\\\nb \"c\\\nd\""), ["ab", "cd"]);
        assert_eq!(texts("a~b a#b HEAD^ a=b [ x !"), ["a~b", "a#b", "HEAD^", "a=b", "[", "x", "!"]);
        assert_eq!(texts("'new\nline'"), ["new\nline"]);
    }

    #[test]
    fn what_a_shell_would_do_is_refused_with_a_way_out() {
        for (command, part) in [
            ("ls | wc", "once for each program"),
            ("a && b", "once for each command"),
            ("a; b", "once for each command"),
            ("a\nb", "once for each command"),
            ("sleep 1 &", "once for each command"),
            ("cat < x", "as an argument"),
            ("echo x > y", "write_file"),
            ("echo x 2>&1", "is returned"),
            ("(ls)", "parentheses"),
            ("echo $HOME", "the value itself"),
            ("echo \"$HOME\"", "the value itself"),
            ("echo $(id)", "the value itself"),
            ("echo $'a'", "the value itself"),
            ("echo `id`", "call shell for it first"),
            ("echo \"`id`\"", "call shell for it first"),
            ("cp a.{txt,md}", "all the words"),
            ("ls ~/x", "from `/`"),
            ("ls # all", "comment"),
            ("echo 'x", "`'` is not closed"),
            ("echo \"x", "`\"` is not closed"),
            ("echo \"x\\", "`\"` is not closed"),
            ("echo \\", "ends in"),
            ("  ", "is empty"),
            ("a\0b", "null"),
            ("'a\0b'", "null"),
            ("a\rb", "control character"),
            ("ls [[:alpha:]]", "range"),
            ("ls [a$b]", "the value itself"),
        ] {
            let said = refusal(command);
            assert!(said.contains(part), "{command}: {said}");
        }
        assert!(refusal(&"x".repeat(LONGEST + 1)).contains("bytes"));
    }

    #[test]
    fn wildcards_count_where_they_are_not_quoted() {
        let word = |text: &str| parse(text).unwrap().remove(0);
        let fits = |pattern: &str, text: &str| word(pattern).matches(text);
        assert!(fits("*.txt", "a.txt") && !fits("*.txt", "a.txt2") && !fits("'*'.txt", "a.txt"));
        assert!(fits("a?c", "abc") && !fits("a?c", "ac") && fits("?", "ß"));
        assert!(fits("[a-c]x", "bx") && !fits("[a-c]x", "dx") && fits("[!a-c]x", "dx"));
        assert!(fits("[]x]", "]") && fits("['-'a]", "-") && fits("[a-]", "-") && !fits("[a'-'c]", "b"));
        assert!(fits("*a*b*c", "xxaxxbxxc") && !fits("*a*b*c", "xxbxxaxxc"));
        assert!(fits("[ab", "[ab"), "a bracket that is not closed is itself");
        assert_eq!(word("'*'").text(), Some("*"));
        assert_eq!(word("**"), word("*"));
        assert!(!word("*").matches_name(".env") && word(".*").matches_name(".env"));
        let hostile = parse(&"*a".repeat(2000)).unwrap().remove(0);
        assert!(!hostile.matches(&"a".repeat(3000).replace("aaaa", "aaab")));
    }

    #[test]
    fn the_normal_form_tells_words_apart() {
        let normal = |command: &str| line(&parse(command).unwrap());
        assert_eq!(normal("g'i't   \"diff\""), "git diff");
        assert_eq!(normal("'git diff'"), "'git diff'");
        assert_eq!(normal("rm ''-rf a\\ b"), "rm -rf 'a b'");
        assert_eq!(normal("ls '*' *"), "ls '*' *");
        assert_eq!(normal("echo '' it\\'s"), r"echo '' 'it'\''s'");
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(command in "\\PC*|[\\x00-\\x7f]{0,40}") {
            let _ = parse(&command);
        }

        #[test]
        fn what_is_read_is_read_again(command in "[a-c'\"\\\\ *?\\[\\]!~#=/.-]{0,24}") {
            if let Ok(words) = parse(&command) {
                let normal = line(&words);
                prop_assert_eq!(&parse(&normal).unwrap(), &words, "{}", normal);
            }
        }

        #[test]
        fn quoted_texts_are_words_again(given in prop::collection::vec("[^\\x00]*", 1..5)) {
            let command: Vec<String> = given.iter().map(|text| quoted(text)).collect();
            prop_assert_eq!(texts(&command.join(" ")), given);
        }
    }
}
