//! Completions: names that a project chose, as candidates of bash and zsh.

use super::words::parse;
use llm_do_program::visible;
use std::{
    cell::RefCell,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

/// Reads a quote and a name, and prints what bash would be given to insert.
const BASH: &str = concat!(
    include_str!("../../crates/cli/src/commands/complete/llm-do.bash"),
    r#"
llm-do() { printf '%s\tabout\n' "$name"; }
COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
while IFS= read -r -d '' open && IFS= read -r -d '' name; do
    COMP_LINE="llm-do show $open" COMP_POINT=$((12 + ${#open}))
    _llm_do
    printf '%s\0' "${COMPREPLY[0]}"
done
"#
);

/// Reads a name, and prints what `_describe` of zsh would be given.
const ZSH: &str = concat!(
    r#"
compdef() { : }
llm-do() { printf '%s\tabout\n' "$name" }
_describe() { local -a all; all=("${(@P)3}"); said=$all[1] }
"#,
    include_str!("../../crates/cli/src/commands/complete/llm-do.zsh"),
    r#"
while IFS= read -r -d '' name; do
    words=(llm-do show '') CURRENT=3 said=
    _llm-do
    printf '%s\0' "$said"
done
"#
);

/// A shell that answers as long as this process runs.
struct Shell {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Shell {
    /// Starts a shell. `None`: it is not installed.
    fn start(program: &str, arguments: &[&str]) -> Option<Self> {
        let mut command = Command::new(program);
        command.args(arguments).env_clear().env("LC_ALL", "C.UTF-8").env("PATH", "/nowhere");
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
        let (input, output) = (process.stdin.take()?, process.stdout.take()?);
        Some(Self { process, input, output: BufReader::new(output) })
    }

    fn ask(&mut self, texts: &[&str]) -> String {
        for text in texts {
            self.input
                .write_all(text.as_bytes())
                .and_then(|()| self.input.write_all(b"\0"))
                .expect("it reads");
        }
        self.input.flush().expect("it reads");
        let mut answer = Vec::new();
        self.output.read_until(0, &mut answer).expect("it answers");
        assert_eq!(answer.pop(), Some(0), "the shell has ended");
        String::from_utf8(answer).expect("text")
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

thread_local! {
    static SHELLS: RefCell<[Option<Shell>; 2]> = RefCell::new([
        Shell::start("/bin/bash", &["--norc", "--noprofile", "-c", BASH]),
        Shell::start("/usr/bin/zsh", &["-f", "-c", ZSH]),
    ]);
}

/// Takes each line as a name.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    // The program offers only names that are shown as they are.
    let offered =
        |name: &&str| !name.is_empty() && visible::words(name) == *name && !name.contains(['\t', '\0']);
    SHELLS.with_borrow_mut(|[bash, zsh]| {
        for name in text.lines().filter(offered) {
            if let Some(bash) = bash {
                for quote in ["", "\"", "'"] {
                    hold_bash(bash, quote, name);
                }
            }
            // zsh itself quotes what it inserts, of the text before the first colon without a backslash.
            if let Some(zsh) = zsh {
                let entry = zsh.ask(&[name]);
                let mut word = String::new();
                let mut rest = entry.chars();
                while let Some(c) = rest.next() {
                    match c {
                        '\\' => word.extend(rest.next()),
                        ':' => break,
                        c => word.push(c),
                    }
                }
                assert_eq!((word.as_str(), rest.as_str()), (name, "about"), "{entry:?}");
            }
        }
    });
}

fn hold_bash(bash: &mut Shell, quote: &str, name: &str) {
    let inserted = bash.ask(&[quote, name]);
    // A text that begins with the quote replaces the open one, and bash adds the closing one where it is missing.
    let word = match !quote.is_empty() {
        true => {
            let begin = if inserted.starts_with(quote) { "" } else { quote };
            let end = if inserted.ends_with(quote) { "" } else { quote };
            format!("{begin}{inserted}{end}")
        }
        false => inserted,
    };
    // For characters that the locale does not know, bash writes `$'…'`.
    if quote.is_empty() && word.starts_with("$'") {
        return;
    }
    let words =
        parse(&word).map(|words| words.iter().map(|word| word.text().map(str::to_owned)).collect::<Vec<_>>());
    assert_eq!(words.ok(), Some(vec![Some(name.to_owned())]), "{name:?} after {quote:?} is {word:?}");
}
