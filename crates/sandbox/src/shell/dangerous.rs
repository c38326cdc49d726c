//! Arguments that make an ordinary program do something that no rule has checked: run another program, run code from
//! the command line, write a file.
//!
//! The arguments are not parsed as the programs parse them, since each program does that differently. A word counts
//! at any position, also after `--` (it may be the value of the option before it). If a program accepts combined
//! short options, a letter counts at any position among them. The worst result is an unnecessary question.

use super::{scripts, words::Word};

/// The sign of a danger.
pub(crate) enum Sign {
    /// The program itself.
    Program,
    /// The number of leading non-option words that determine what the program runs; asks unless the rule's pattern
    /// spells them.
    Runs(usize),
    /// Leading non-option words after which one more word counts as for [`Sign::Runs`].
    RunsNext(&'static str),
    /// `--name`, `--name=value`, and each abbreviation.
    Long(&'static str),
    /// Short options, alone or among others: `-c`, `-xc`, `-cvalue`.
    Short(&'static str),
    /// A short option whose value is in the same word: `-mvalue`.
    Attached(char),
    /// Words with this prefix: `-exec`, `-fplugin=x`.
    Begins(&'static str),
    /// The first word that is not an option.
    Subcommand(&'static str),
    /// An option before the first word that is not an option.
    Before,
    /// `NAME=value`.
    Assignment,
    /// Letters of a first word without a dash: `tar xIf`.
    Bare(&'static str),
    /// A script among the words that is not plain.
    Script(fn(&[String]) -> bool),
}

/// A line of the table: programs, the sign, and its meaning. Lists are words with one space between them.
pub(crate) struct Row(pub(crate) &'static str, pub(crate) Sign, pub(crate) &'static str);

use Sign::{
    Assignment, Attached, Bare, Before, Begins, Long, Program, Runs, RunsNext, Script, Short, Subcommand,
};

const OTHER: &str = "runs another program, which no rule has looked at";
const CODE: &str = "runs code from the command line";
const FILE: &str = "runs what a file says, which no rule has looked at";
const WRITES: &str = "writes a file";
const INTERACTIVE: &str = "can run any program from its own commands";
const LIBRARY: &str = "loads code from a library, which no rule has looked at";
const SETTINGS: &str = "takes settings that can make it run other programs";

/// The table of known dangers.
pub(crate) const KNOWN: &[Row] = &[
    // Programs that only run others.
    Row(
        "busybox bwrap capsh choom coreutils chpst chroot chrt cpulimit doas entr env expect fakeroot firejail \
         flock gdb hyperfine ionice ld-linux-aarch64.so.1 ld-linux-x86-64.so.2 ld.so ldd linux32 linux64 ltrace \
         nice nohup nsenter numactl parallel perf pkexec prlimit proot rlwrap run-parts runuser screen script \
         setarch setpriv setsid sg start-stop-daemon stdbuf strace su sudo systemd-run taskset time timeout tmux \
         toybox unbuffer unshare valgrind watch xargs xvfb-run",
        Program,
        OTHER,
    ),
    Row(
        "aa-exec catchsegv cgexec chronic daemonize dbus-launch dbus-run-session dumb-init eatmydata fakechroot \
         faketime gosu ifne lldb logsave mispipe msgexec msgfilter multitime openvt pee pexec rc run-mailcap \
         runcon runsv s6-setuidgid sem setlock setuidgid softlimit sshpass su-exec tini torify torsocks \
         xinit xterm zrun",
        Program,
        OTHER,
    ),
    Row("at batch crontab", Program, "runs a command later"),
    Row("ssh rsh slogin docker podman kubectl", Program, "runs commands in another place"),
    Row(
        "dc ed editor elinks emacs ex ftp info joe less lftp lynx m4 micro more most mutt mysql nano nvim pager \
         pico psql rview rvim sensible-browser sensible-editor sensible-pager sqlite3 telnet vi view vim vimdiff \
         w3m",
        Program,
        INTERACTIVE,
    ),
    Row("tee", Program, WRITES),
    Row("patch", Program, "changes whatever files a patch names"),
    Row("bpftrace erl ghci iex irb jrunscript jshell slsh swipl", Program, CODE),
    Row(
        "apt apt-get aptitude dnf dpkg rpm snap yum zypper libreoffice soffice sphinx-build",
        Program,
        "runs scripts of packages or documents",
    ),
    // Interpreters.
    Row("ash bash dash fish ksh mksh sh zsh", Short("c"), CODE),
    Row("bash fish", Long("rcfile init-file command init-command"), CODE),
    Row("ash bash dash fish ksh mksh sh zsh", Runs(1), FILE),
    Row("csh elvish nu pwsh rbash tcsh xonsh", Short("cC"), CODE),
    Row("pwsh nu", Long("commands execute"), CODE),
    Row("csh elvish nu pwsh rbash tcsh xonsh", Runs(1), FILE),
    Row("python pypy", Short("c"), CODE),
    Row("python pypy", Attached('m'), FILE),
    Row("perl", Short("eEMmdI"), CODE),
    Row("ruby", Short("erI"), CODE),
    Row("node nodejs", Short("epr"), CODE),
    Row("node nodejs", Long("eval print require import loader experimental-loader env-file"), CODE),
    Row("deno bun", Short("ep"), CODE),
    Row("deno bun", Subcommand("eval repl x"), CODE),
    Row("php", Short("rBREdac"), CODE),
    Row("lua luajit", Short("el"), CODE),
    Row("Rscript R julia octave ghc osascript gnuplot", Short("eEL"), CODE),
    Row("Rscript R julia octave", Long("eval print load"), CODE),
    Row(
        "python pypy perl ruby node nodejs deno php lua luajit Rscript julia octave runghc osascript gnuplot \
         tclsh wish guile clisp elixir groovy java kotlin ocaml racket runhaskell sbcl scala ts-node tsx",
        Runs(1),
        FILE,
    ),
    Row("awk gawk mawk nawk original-awk", Script(scripts::awk), "its script is more than plain"),
    Row("awk gawk mawk nawk original-awk", Short("fiElD"), FILE),
    Row("awk gawk mawk nawk", Long("file exec include load debug source"), FILE),
    Row("sed gsed", Script(scripts::sed), "its script is more than plain, or not seen"),
    Row("sed gsed", Long("file in-place"), "takes its script from a file, or writes files"),
    // What builds and runs projects does what their files say.
    Row(
        "ansible ansible-playbook ant bazel bun bundle cargo cmake composer ctest dotnet gmake go gradle gradlew \
         just make meson mix mvn mvnw ninja nox npm npx pip pipx pnpm poetry prove pytest rake scons stack swift \
         terraform tox uv uvx yarn zig",
        Runs(1),
        "runs what the files of a project say",
    ),
    Row(
        "npm pnpm yarn bun uv poetry bundle pipx composer dotnet",
        RunsNext("run run-script exec x dlx tool create"),
        "runs what the files of a project say",
    ),
    Row("make gmake", Short("fCEI"), "takes other rules than those of the project"),
    Row(
        "make gmake",
        Long("file makefile directory eval include-dir"),
        "takes other rules than those of the project",
    ),
    Row("make gmake", Assignment, "sets a variable that its commands use"),
    Row("cargo", Long("config manifest-path"), SETTINGS),
    Row("npm pnpm yarn", Long("script-shell prefix node-options userconfig"), SETTINGS),
    Row("go", Begins("-exec --exec -toolexec --toolexec -overlay -modfile -C"), OTHER),
    // Finding files.
    Row(
        "find gfind",
        Begins("-exec -ok -delete -fprint -fls"),
        "runs another program, deletes or writes files",
    ),
    Row("fd fdfind", Short("xX"), OTHER),
    Row("fd fdfind", Long("exec exec-batch"), OTHER),
    Row("rg ripgrep", Long("pre hostname-bin"), OTHER),
    Row("ag ack", Long("pager"), OTHER),
    Row("locate plocate", Short("d"), "takes another index"),
    // git.
    Row("git", Before, "an option before git's command, by which rules for the command don't hold"),
    Row(
        "git",
        Subcommand(
            "archive bisect citool clone config credential cvsserver daemon difftool fast-import filter-branch \
         for-each-repo gui help hook instaweb maintenance mergetool remote-ext replay send-email shell submodule \
         upload-pack web--browse",
        ),
        "runs other programs, or sets which ones git runs",
    ),
    Row(
        "git",
        Long(
            "config config-env exec exec-path ext-diff extcmd open-files-in-pager output output-directory \
         receive-pack server-option template textconv tool trailer upload-pack",
        ),
        "runs another program, or writes a file",
    ),
    Row("git", Short("cOx"), "runs another program, or sets which one git runs"),
    Row("git", Begins("ext:: fd::"), OTHER),
    // Archives, copies, texts.
    Row(
        "tar gtar bsdtar",
        Long(
            "to-command checkpoint-action use-compress-program info-script new-volume-script rsh-command rmt-command \
         absolute-names files-from",
        ),
        OTHER,
    ),
    Row("tar gtar bsdtar", Short("IFPT"), OTHER),
    Row("tar gtar bsdtar", Bare("IFPT"), OTHER),
    Row("zip", Long("unzip-command TT"), OTHER),
    Row("zip", Begins("-TT -T"), "tests the archive with a program that can be chosen"),
    Row("install", Long("strip-program"), OTHER),
    Row("cpio", Long("rsh-command"), OTHER),
    Row("rsync", Short("eM"), OTHER),
    Row("rsync", Long("rsh rsync-path remote-option daemon config"), OTHER),
    Row("scp sftp", Short("oSFDJ"), OTHER),
    Row("sort", Long("compress-program"), OTHER),
    Row("sort", Short("o"), WRITES),
    Row("sort", Long("output"), WRITES),
    Row("split", Long("filter"), OTHER),
    Row("man", Short("PHCp"), OTHER),
    Row("man", Long("pager html config-file preprocessor"), OTHER),
    Row("yq", Short("i"), WRITES),
    Row("yq", Long("inplace in-place"), WRITES),
    Row("pandoc", Short("FLd"), OTHER),
    Row("pandoc", Long("filter lua-filter pdf-engine defaults"), OTHER),
    Row("gs ghostscript", Begins("-dNOSAFER -dDELAYSAFER --permit -sOutputFile=% -o% @"), OTHER),
    Row("groff troff pic", Short("U"), OTHER),
    Row("cowsay cowthink neofetch", Short("f"), CODE),
    Row("neofetch", Long("config"), CODE),
    Row("exiftool", Begins("-config -if -p -userParam -@"), CODE),
    Row("csvtool", Subcommand("call"), OTHER),
    Row(
        "gpg gpg2 gpgsm",
        Long("agent-program dirmngr-program exec-path keyboxd-program photo-viewer options"),
        OTHER,
    ),
    Row("gpg gpg2 gpgsm", Long("pinentry-program scdaemon-program homedir"), SETTINGS),
    Row("gpg-agent", Program, OTHER),
    Row("openssl", Begins("-engine --engine -provider --provider -config --config"), LIBRARY),
    Row("openssl", Subcommand("engine"), LIBRARY),
    Row("ssh-keygen", Short("Dw"), LIBRARY),
    Row("ssh-add", Short("s"), LIBRARY),
    Row("ssh-agent", Program, OTHER),
    Row("restic", Long("password-command option"), OTHER),
    Row("restic", Short("o"), OTHER),
    Row("certbot", Long("pre-hook post-hook deploy-hook renew-hook manual-auth-hook"), OTHER),
    Row("tcpdump", Short("z"), OTHER),
    Row("tshark wireshark", Short("X"), CODE),
    Row("openvpn", Program, SETTINGS),
    Row("pidstat", Short("e"), OTHER),
    Row("scrot", Short("e"), OTHER),
    Row("xdotool", Subcommand("exec"), OTHER),
    Row("ip", Subcommand("netns"), OTHER),
    Row("ip", Short("b"), FILE),
    Row("mpv vlc gimp inkscape", Program, INTERACTIVE),
    Row(
        "tex latex pdflatex xelatex lualatex pdftex luatex",
        Begins("-shell-escape --shell-escape -enable-write18 --enable-write18"),
        OTHER,
    ),
    // Compilers and the network.
    Row(
        "cc c++ gcc g++ clang clang++",
        Begins("-B -fplugin -wrapper --wrapper -specs --specs -Xclang @ -fuse-ld"),
        SETTINGS,
    ),
    Row("ld ld.bfd ld.gold ld.lld lld gold mold", Begins("-plugin --plugin -fuse-ld --wrapper @"), LIBRARY),
    Row("addr2line ar as gprof nm objcopy objdump ranlib readelf size strings strip", Begins("@"), SETTINGS),
    Row("ar gcc-ar gcc-nm gcc-ranlib llvm-ar llvm-nm nm objcopy ranlib strip", Long("plugin"), LIBRARY),
    Row("opt llc lli", Begins("-load --load"), LIBRARY),
    Row("lli tcc", Program, CODE),
    Row("rustc rustdoc", Begins("@"), SETTINGS),
    Row("rustc rustdoc", Short("CZ"), SETTINGS),
    Row("rustdoc", Long("test-builder runtool test-runtool"), OTHER),
    Row("javac", Begins("-processor --processor -J @"), CODE),
    Row("protoc", Long("plugin"), OTHER),
    Row("pylint", Long("load-plugins init-hook rcfile"), CODE),
    Row(
        "eslint flake8 jest mocha mypy pre-commit prettier pylint rollup vite webpack",
        Runs(1),
        "runs what the files of a project say",
    ),
    Row("curl", Short("K"), SETTINGS),
    Row("curl", Long("config"), SETTINGS),
    Row("wget", Short("e"), SETTINGS),
    Row("wget", Long("execute config use-askpass"), SETTINGS),
    Row("nc ncat netcat", Short("ec"), OTHER),
    Row("ncat", Long("exec sh-exec lua-exec"), OTHER),
    Row("nmap", Long("script"), OTHER),
    Row("socat", Begins("EXEC: SYSTEM: exec: system:"), OTHER),
];

/// Programs that run the code on their standard input if no script is their first argument.
const READS_CODE: &str = "R Rscript ash bash bun bunx clisp clojure csh dash deno elixir elvish erl escript fish gawk ghci \
    gnuplot groovy groovysh guile iex irb java jjs jrunscript jshell julia kotlin kotlinc ksh lua luajit maxima mksh mono node \
    nodejs nu ocaml octave osascript perl php pwsh pypy python qjs racket raku rbash rhino ruby runghc runhaskell sage sbcl scala \
    sh tcc tclsh tcsh ts-node tsx wish xonsh zsh";

/// Programs that always run the commands on their standard input.
const READS_COMMANDS: &str = "at batch bpftrace cadaver clickhouse clickhouse-client clickhouse-local crontab cypher-shell dc debugfs \
    duckdb ed ex expect ftp gdb guestfish isql lftp lldb m4 mariadb mongo mongosh mysql nft octave-cli osqueryi parallel patch psql \
    redis-cli sftp sqlcmd sqlite sqlplus ssh telnet trino usql virsh xargs";

const INPUT: &str = "runs code from its standard input";

/// Returns the danger of a command whose standard input a model can write. The author has written the first `spelled`
/// words.
pub(crate) fn fed(words: &[Word], spelled: usize) -> Option<Danger> {
    let texts: Vec<String> = words.iter().map(Word::likeness).collect();
    let (program, arguments) = texts.split_first()?;
    let (name, plain) = names(program);
    let is_one_of = |programs: &str| listed(programs, name) || listed(programs, plain);
    // An author who names the script first means its input. Any other word may be the value of an option.
    let is_script = |word: &&String| {
        spelled > 1
            && !is_option(word)
            && !word.is_empty()
            && !["/dev/", "/proc/"].iter().any(|at| word.starts_with(at))
    };
    let runs = is_one_of(READS_COMMANDS)
        || is_one_of(READS_CODE) && !arguments.first().is_some_and(|word| is_script(&word));
    runs.then(|| Danger { what: name.to_owned(), reason: INPUT })
}

/// Returns the name of a program without its folder, and without its version: `python3.12`, `clang-14`.
fn names(program: &str) -> (&str, &str) {
    let name = program.rsplit('/').next().unwrap_or(program);
    (name, name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-'))
}

/// A danger in a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Danger {
    /// The program and the word, as shown to the operator.
    pub(crate) what: String,
    /// The reason why it is dangerous.
    pub(crate) reason: &'static str,
}

/// Returns the first danger in a command. The matching rule's pattern spells the first `spelled` words.
pub(crate) fn find(words: &[Word], spelled: usize) -> Option<Danger> {
    let texts: Vec<String> = words.iter().map(Word::likeness).collect();
    let (program, arguments) = texts.split_first()?;
    let (name, plain) = names(program);
    KNOWN.iter().filter(|Row(programs, ..)| listed(programs, name) || listed(programs, plain)).find_map(
        |Row(_, sign, reason)| {
            let word = sign.found(arguments, spelled)?;
            let what = [name, word].join(" ").trim_end().to_owned();
            Some(Danger { what, reason })
        },
    )
}

impl Sign {
    /// Returns the word that shows the danger; empty for the program itself.
    fn found<'a>(&self, arguments: &'a [String], spelled: usize) -> Option<&'a str> {
        let any = |is: &dyn Fn(&str) -> bool| arguments.iter().map(String::as_str).find(|word| is(word));
        let subcommand = || arguments.iter().find(|word| !is_option(word)).map(String::as_str);
        match self {
            Program => Some(""),
            Runs(count) => runs(arguments, *count, spelled),
            RunsNext(first) => listed(first, subcommand()?).then(|| runs(arguments, 2, spelled))?,
            Long(names) => any(&|word| names.split(' ').any(|name| is_long(word, name))),
            Short(letters) => {
                any(&|word| cluster(word).is_some_and(|all| all.contains(|c| letters.contains(c))))
            }
            Attached(letter) => {
                any(&|word| cluster(word).is_some_and(|all| all.contains(*letter) && !all.ends_with(*letter)))
            }
            Begins(beginnings) => {
                any(&|word| beginnings.split(' ').any(|beginning| word.starts_with(beginning)))
            }
            Subcommand(names) => subcommand().filter(|word| listed(names, word)),
            Before => arguments.first().map(String::as_str).filter(|word| is_option(word)),
            Assignment => any(&|word| {
                let name = word.split_once('=').map_or("", |(name, _)| name);
                !name.is_empty() && !is_option(word)
            }),
            Bare(letters) => {
                let first = arguments.first().filter(|word| !is_option(word))?;
                first.contains(|c| letters.contains(c)).then_some(first)
            }
            Script(more_than_plain) => more_than_plain(arguments).then_some(""),
        }
    }
}

/// Returns the last of the first `count` non-option words, if the pattern does not spell all words up to it.
fn runs(arguments: &[String], count: usize, spelled: usize) -> Option<&str> {
    let named = arguments.iter().enumerate().filter(|(_, word)| !is_option(word)).take(count);
    let (at, word) = named.last()?;
    // The program itself is the first word of the pattern.
    (at + 1 >= spelled).then_some(word)
}

/// Returns true if a list of words contains a word.
fn listed(list: &str, word: &str) -> bool {
    list.split(' ').any(|listed| listed == word)
}

fn is_option(word: &str) -> bool {
    word.starts_with(['-', '+'])
}

fn is_long(word: &str, name: &str) -> bool {
    let Some(given) = word.strip_prefix("--") else { return false };
    let given = given.split_once('=').map_or(given, |(given, _)| given);
    !given.is_empty() && name.starts_with(given)
}

/// Returns the letters of a word of short options.
fn cluster(word: &str) -> Option<&str> {
    word.strip_prefix('-').filter(|rest| !rest.starts_with('-') && !rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::words::parse;

    fn danger(command: &str, spelled: usize) -> Option<Danger> {
        find(&parse(command).unwrap(), spelled)
    }

    #[test]
    fn interpreters_run_what_they_read_unless_a_script_is_named_first() {
        for command in [
            "sh",
            "/bin/sh",
            "bash -s x",
            "bash -",
            "sh /dev/stdin",
            "sh /proc/self/fd/0",
            "python3",
            "python3.12 -",
            "python3 -W x",
            "python3 -i script.py",
            "perl -w",
            "node",
            "R --no-save",
            "psql -q",
            "sqlite3 x.db",
            "mysql x",
            "sqlite x",
        ] {
            let words = parse(command).unwrap();
            assert!(fed(&words, words.len()).is_some(), "{command}");
        }
        for command in [
            "cat",
            "sort -u",
            "jq .",
            "python3 tools/convert.py -",
            "bash run.sh -s",
            "column -t",
            "perl x.pl",
        ] {
            let words = parse(command).unwrap();
            assert!(fed(&words, words.len()).is_none(), "{command}");
        }
        assert!(fed(&parse("python3 script.py").unwrap(), 1).is_some(), "a model has chosen the script");
    }

    fn asks(command: &str) -> bool {
        danger(command, 1).is_some()
    }

    /// Commands that show one line of the table.
    fn examples(program: &str, sign: &Sign) -> Vec<String> {
        let each = |words: &str, make: &dyn Fn(&str) -> Vec<String>| -> Vec<String> {
            words.split(' ').flat_map(make).map(|word| format!("{program} x '{word}'")).collect()
        };
        match sign {
            Program => vec![program.to_owned(), format!("{program} x"), format!("/usr/bin/{program}")],
            Runs(1) => vec![format!("{program} x"), format!("{program} -q x y")],
            Runs(_) => panic!("there is none yet"),
            RunsNext(first) => first.split(' ').map(|word| format!("{program} {word} x")).collect(),
            Long(names) => each(names, &|name| {
                let short: String = name.chars().take(2).collect();
                [name.to_owned(), format!("{name}=v"), short].map(|name| format!("--{name}")).to_vec()
            }),
            Short(letters) => letters
                .chars()
                .flat_map(|c| [format!("-{c}"), format!("-q{c}"), format!("-{c}v")])
                .map(|word| format!("{program} {word}"))
                .collect(),
            Attached(c) => vec![format!("{program} -{c}value"), format!("{program} -I{c}value")],
            Begins(words) => each(words, &|word| vec![word.to_owned(), format!("{word}x")]),
            Subcommand(names) => names.split(' ').map(|name| format!("{program} {name}")).collect(),
            Before => vec![format!("{program} --no-pager x"), format!("{program} -C x y")],
            Assignment => vec![format!("{program} SHELL=/x")],
            Bare(letters) => letters.chars().map(|c| format!("{program} x{c}f")).collect(),
            Script(_) => vec![format!("{program} 's/a/b/e; system(1)' f")],
        }
    }

    #[test]
    fn each_line_of_the_table_asks() {
        for Row(programs, sign, reason) in KNOWN {
            for program in programs.split(' ') {
                assert!(!program.is_empty(), "a list has two spaces: {programs}");
                for example in examples(program, sign) {
                    assert!(asks(&example), "{example} runs unasked, which {reason}");
                    let words: Vec<String> =
                        parse(&example).unwrap().iter().skip(1).map(Word::likeness).collect();
                    assert!(sign.found(&words, 1).is_some(), "{example} is no example of its line");
                }
            }
        }
    }

    #[test]
    fn what_is_ordinary_runs() {
        for command in [
            "ls -la /notes",
            "find . -name '*.md' -type f",
            "git diff --stat HEAD",
            "git log --oneline -n 5",
            "git status",
            "tar tf a.tar",
            "tar -xzf a.tar",
            "sort -n a.txt",
            "sed -n 1,5p a.txt",
            "awk '{print $1}' a.txt",
            "rg --pretty x",
            "grep -e x a.txt",
            "python3",
            "make",
            "rsync -av a b",
            "zip -r a.zip b",
            "gcc -Wall -c a.c",
            "cat preface",
            "nm a.o",
            "ar t a.a",
            "pandoc a.md -o a.html",
            "openssl dgst -sha256 a",
            "gs -dSAFER -sDEVICE=txtwrite a.pdf",
            "gpg --verify a.sig",
        ] {
            assert_eq!(danger(command, 1), None, "{command}");
        }
    }

    #[test]
    fn disguises_are_seen_through() {
        for command in [
            "find . '-exec' rm x",
            "find . -e\"xec\"dir rm x",
            "find -- . -delete",
            "tar x --to-com=sh",
            "tar -C -- --to-command=sh -xf a",
            "tar cfI a.tar sh",
            "/usr/bin/../bin/find . -delete",
            "python3.12 -c 1",
            "python3 -Ic 1",
            "perl -lne 1",
            "bash -lc id",
            "git --git-dir=x log",
            "git diff --ext-d",
            "env",
            "./find . -delete",
            "clang-14 -fplugin=x.so a.c",
            "make all CC=evil",
            "nm --plugin ./x.so a.o",
            "nm --plug=./x.so a.o",
            "ar --plugin ./x.so t a.a",
            "ld -plugin ./x.so a.o",
            "ld -plugin=./x.so a.o",
            "openssl list -providers -provider-path . -provider x",
            "openssl enc -engine ./x.so",
            "gpg --agent-program ./x --list-secret-keys",
            "gpg --agent-prog=./x -d a",
            "logsave log ./x",
            "pandoc -d x a.md",
            "pandoc -sdx a.md",
            "gs -dNOSAFER a.ps",
            "ssh-keygen -D ./x.so",
            "objdump @options",
        ] {
            assert!(asks(command), "{command} runs unasked");
        }
    }

    #[test]
    fn what_the_pattern_spells_out_is_the_authors_word() {
        assert!(danger("make test", 1).is_some());
        assert_eq!(danger("make test", 2), None);
        assert!(danger("make test install", 2).is_none(), "further words are the rule's");
        assert!(danger("npm run build", 2).is_some());
        assert_eq!(danger("npm run build", 3), None);
        assert_eq!(danger("npm test", 2), None);
        assert!(danger("python3 -m pip install x", 1).is_some());
        assert_eq!(danger("python3 -m pytest -q", 3), None);
        assert!(danger("make -j4 evil", 2).is_some());
        // Options are still checked.
        assert!(danger("python3 -c 1", 3).is_some());
        assert!(danger("find . -delete", 3).is_some());
        assert!(danger("xargs rm", 2).is_some());
    }

    #[test]
    fn a_danger_is_told_with_its_word() {
        let told = danger("find . -name x -exec rm y", 1).unwrap();
        assert_eq!(told.what, "find -exec");
        assert_eq!(danger("/bin/env", 1).unwrap().what, "env");
    }
}
