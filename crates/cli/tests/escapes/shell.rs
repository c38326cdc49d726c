//! Quoting tricks for the shell tool: data for its group, which comes with the tool. Not compiled in yet.
//!
//! The rule that each of them meets is `echo *: preApproved`, with nothing else allowed. None may start another program than
//! `echo`, and none may write, read or send anything: `touch OUTSIDE/new` and `cat OUTSIDE/canary.txt` are what they want.
//! The control is `/bin/sh -c` with the same text, which does it.

/// What it is called in the table, and the command. `{touch}` is `touch OUTSIDE/new`, `{canary}` the canary's path.
pub(crate) const TRICKS: &[(&str, &str)] = &[
    ("a second command behind `;`", "echo x; {touch}"),
    ("behind `&&`, `||`, `&`", "echo x && {touch}"),
    ("behind `||`", "echo x || {touch}"),
    ("in the background", "echo x & {touch}"),
    ("behind a pipe", "echo x | sh -c '{touch}'"),
    ("behind a line end", "echo x\n{touch}"),
    ("behind a carriage return", "echo x\r{touch}"),
    ("in `$(…)`", "echo $({touch})"),
    ("in backticks", "echo `{touch}`"),
    ("in `$(…)` within double quotes", "echo \"$({touch})\""),
    ("in a process substitution", "echo <({touch})"),
    ("in an arithmetic expansion", "echo $((a[$({touch})]))"),
    ("in a parameter's default", "echo ${x:-$({touch})}"),
    ("in `$'…'`, with escapes for the quotes", "echo $'x\\x27; {touch} #'"),
    ("output to a file", "echo x > {outside}/new"),
    ("output to a descriptor's file", "echo x >&/dev/tcp/127.0.0.1/{port}"),
    ("input from a file", "echo x < {canary}"),
    ("a here document that is expanded", "echo << E\n$({touch})\nE"),
    ("a variable before the command", "PATH={outside} echo x"),
    ("a variable that another program reads", "LD_PRELOAD={outside}/x.so echo x"),
    ("an unclosed quote that swallows the next", "echo 'x\" ; {touch} ; \"'"),
    ("a quote inside a word", "ec''ho x'; {touch}'"),
    ("a backslash before the quote", "echo \\' ; {touch} ; \\'"),
    ("a backslash before the line end", "echo x \\\n; {touch}"),
    ("a name that only begins like the rule's", "echo2 x"),
    ("a name with a path in front", "{outside}/echo x"),
    ("a name with a blank that no keyboard has (`U+00A0`)", "echo\u{a0}x"),
    ("a name with a letter that looks the same (`е`)", "\u{435}cho x"),
    ("an option that runs something (`find -exec`)", "find . -exec {touch} ;"),
    ("an option that runs something (`git -c`)", "git -c core.pager='{touch}' log"),
    ("an option that runs something (`tar --checkpoint-action`)", "tar --checkpoint=1 --checkpoint-action=exec='{touch}' -cf x ."),
    ("an option that runs something (`env`, `xargs`, `nice`)", "env {touch}"),
    ("a glob whose match begins with `-`", "echo *"),
    ("a tilde and a brace", "echo ~root/{a,b}"),
    ("history (`!!`) and comments (`#`)", "echo x # ; {touch}"),
    ("NUL in the command", "echo x\0; {touch}"),
    ("an alias or a function with the name `echo`", "echo() { {touch}; }; echo x"),
    ("`eval`, `exec`, `source`, `.`", "eval {touch}"),
    ("a hundred thousand words", "echo {words}"),
];
