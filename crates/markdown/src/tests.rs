use crate::{Blocks, Line, Span};
use anstyle::{Color, Effects};
use insta::assert_snapshot;
use proptest::prelude::*;
use std::fmt::Write as _;

fn lines(source: &str) -> Vec<Line> {
    at(60, source)
}

fn at(columns: usize, source: &str) -> Vec<Line> {
    let mut blocks = Blocks::new(columns);
    let mut lines = blocks.push(source);
    lines.extend(blocks.finish());
    lines
}

/// Returns the text of the lines.
fn text(source: &str) -> String {
    joined(&lines(source))
}

fn joined(lines: &[Line]) -> String {
    lines.iter().map(|line| line.text() + "\n").collect()
}

/// Returns the lines with styles: `{bold+cyan: text -> link}`.
fn styled(source: &str) -> String {
    let mut out = String::new();
    for line in lines(source) {
        line.spans.iter().for_each(|span| describe(span, &mut out));
        out.push('\n');
    }
    out
}

fn describe(span: &Span, out: &mut String) {
    let mut style: Vec<String> = Vec::new();
    for (effect, name) in [
        (Effects::BOLD, "bold"),
        (Effects::DIMMED, "dim"),
        (Effects::ITALIC, "italic"),
        (Effects::UNDERLINE, "underline"),
        (Effects::STRIKETHROUGH, "strike"),
    ] {
        if span.style.get_effects().contains(effect) {
            style.push(name.to_owned());
        }
    }
    if let Some(Color::Ansi(colour)) = span.style.get_fg_color() {
        style.push(format!("{colour:?}").to_lowercase());
    }
    if style.is_empty() && span.link.is_none() {
        out.push_str(&span.text);
        return;
    }
    let link = span.link.as_ref().map(|link| format!(" -> {link}")).unwrap_or_default();
    write!(out, "{{{}: {}{link}}}", style.join("+"), span.text).unwrap();
}

#[test]
fn a_paragraph_is_one_line() {
    assert_snapshot!(text("One\nparagraph on  \ntwo lines.\n\n\n\nAnd another."), @r"
        One paragraph on
        two lines.

        And another.
        ");
}

#[test]
fn inline_styles() {
    assert_snapshot!(styled("a *b **c*** ~~d~~ `e\\*` \\*f\\* &amp; snake_case\n\n# H1 *x*\n## H2\n### H3\nText\n---\n"), @r"
        a {italic: b }{bold+italic: c} {strike: d} {cyan: e\*} *f* & snake_case

        {bold+underline: H1 }{bold+italic+underline: x}

        {bold: H2}

        {bold+italic: H3}

        {bold: Text}
        ");
}

#[test]
fn links_and_images() {
    assert_snapshot!(styled(
        "[text](https://a.example/x) <https://b.example> <me@c.example> [file](src/main.rs)\n\
         [https://bank.example](https://evil.example) [js](javascript:alert(1)) [](https://d.example)\n\
         ![alt](https://e.example/i.png) [![badge](b.svg)](https://f.example)\n\n\
         See [1] and [x][1].\n\n[1]: https://g.example\n"
    ), @r"
        {underline: text -> https://a.example/x} {underline: https://b.example -> https://b.example} {underline: me@c.example -> mailto:me@c.example} file (src/main.rs) {underline: https://bank.example -> https://evil.example} ({underline: https://evil.example -> https://evil.example}) js (javascript:alert(1)) ({underline: https://d.example -> https://d.example}) image: {underline: alt -> https://e.example/i.png} ({underline: https://e.example/i.png -> https://e.example/i.png}) {underline: image: badge -> https://f.example}{underline:  (b.svg)}

        See [1] and [x][1].

        [1]: https://g.example
        ");
}

#[test]
fn addresses_of_links_are_text_where_links_cannot_be_followed() {
    let source = "[text](https://a.example/x) <https://b.example> <me@c.example> [file](src/main.rs)\n";
    let mut blocks = Blocks::new(80).without_links();
    let mut lines = blocks.push(source);
    lines.extend(blocks.finish());
    let shown = "text (https://a.example/x) https://b.example me@c.example file (src/main.rs)\n";
    assert_eq!(joined(&lines), shown);
    assert!(lines.iter().flat_map(|line| &line.spans).all(|span| span.link.is_none()));
}

#[test]
fn lists() {
    assert_snapshot!(text(
        "Steps:\n1. one\n2. two\n   - inner\n   - inner\n     * deep\n3. three\n\n   More on three.\n4. four\n\n\
         - [x] done\n- [ ] open\n\n* loose\n\n* loose\n\n7) seven\n7) eight\n\n-\n- x\n"
    ), @r"
        Steps:
        1. one
        2. two
           ◦ inner
           ◦ inner
             • deep
        3. three

           More on three.

        4. four

        • [x] done
        • [ ] open

        • loose

        • loose

        7. seven
        8. eight

        •
        • x
        ");
}

#[test]
fn code_in_a_list_can_be_copied() {
    assert_snapshot!(text("1. Run:\n   ```\n   make\n     all\n   ```\n2. Then\n\n       indented\n3. end"), @r"
        1. Run:

        make
          all

        2. Then

        indented

        3. end
        ");
}

#[test]
fn quotes_have_a_bar_on_each_line() {
    assert_snapshot!(text("> one\ntwo\n>\n> - a\n> - b\n>\n> > nested  \n> > break\n\nafter"), @r"
        │ one two
        │
        │ • a
        │ • b
        │
        │ │ nested
        │ │ break

        after
        ");
}

#[test]
fn tables_are_aligned_by_columns_of_the_terminal() {
    let table = "| Name | 数 | c |\n|:--|--:|:-:|\n| 水 | 1 | **x** |\n| `abc` | 1000 | |\n| a | b\n\nafter";
    assert_snapshot!(text(table), @r"
        Name    数  c
        ────  ────  ─
        水       1  x
        abc   1000
        a        b

        after
        ");
    assert_snapshot!(joined(&at(10, table)), @r"
        Name: 水
        数: 1
        c: x

        Name: abc
        数: 1000

        Name: a
        数: b

        after
        ");
}

#[test]
fn html_and_mathematics_are_shown_as_they_are() {
    assert_snapshot!(text(
        "a <b>bold</b><br> $x_1 * y_2$ costs $5\n\n<details>\n<summary>S</summary>\n\n*x*\n\n</details>\n\n\
         <!-- a\n\n# b *c*\n-->\n$$\n\\sum_i x_i\n$$\n"
    ), @r"
        a <b>bold</b><br> $x_1 * y_2$ costs $5

        <details>
        <summary>S</summary>

        x

        </details>

        <!-- a

        # b *c*
        -->

        $$ \sum_i x_i $$
        ");
}

#[test]
fn code_keeps_its_characters() {
    let code = "fn f() {\n\n\tlet x = \"**a**\";   \n    // ~~~ `` <b>\n}\n";
    let fenced = format!("```rust\n{code}```\n");
    let given: Vec<String> = lines(&fenced).iter().map(Line::text).collect();
    assert_eq!(given, code.lines().collect::<Vec<_>>());
    let indented: String = code.lines().map(|line| format!("    {line}\n")).collect();
    assert_eq!(text(&indented), code);
    assert_eq!(text("````md\n```\nx\n```\n````\n~~~\n```\n~~~\n"), "```\nx\n```\n\n```\n");
    assert_eq!(text("  ```\n    a\n  b\n c\n"), "  a\nb\nc\n");
}

#[cfg(feature = "highlight")]
#[test]
fn code_in_a_known_language_has_colours() {
    assert_snapshot!(styled("```rust\n// c\nlet x = \"s\";\n```\n```nonsense\nlet x\n```\n"), @r#"
        {green: // c}
        {magenta: let} x {magenta: =} {green: "s"};

        {cyan: let x}
        "#);
}

#[test]
fn blocks_are_given_as_soon_as_they_are_complete() {
    let mut blocks = Blocks::new(60);
    let mut given = |piece: &str| joined(&blocks.push(piece));
    assert_eq!(given("A par"), "");
    assert_eq!(given("agraph\n"), "");
    assert_eq!(given("\n"), "A paragraph\n");
    assert_eq!(given("# Head"), "");
    assert_eq!(given("ing\n"), "\nHeading\n");
    assert_eq!(given("- a\n  b\n"), "");
    assert_eq!(given("- c"), "");
    assert_eq!(given("\n"), "\n• a b\n");
    assert_eq!(given("```sh\nls"), "• c\n\n");
    assert_eq!(given("\npwd\n"), "ls\npwd\n");
    assert_eq!(given("```\n|a|b|\n|-|-|\n|1|2|\n"), "");
    assert_eq!(joined(&blocks.pending(2)), "|-|-|\n|1|2|\n");
    assert_eq!(joined(&blocks.finish()), "\na  b\n─  ─\n1  2\n");
}

#[test]
fn nothing_moves_the_cursor_or_hides() {
    let source = "a\x1b[2J \u{202e}b &#x1b;]0;t&#7; pay\u{200b}pal c\rd\n\n`\x1b`\n\n```\n\x1b[31m\u{9b}x\r\n\te\u{feff}\n```\n\
                  |\x1b|\n|-|\n|&#27;|\n\n<b \x1b>\n\n[x](https://a.example/&#x1b;\x1b)\n\n👩\u{200d}🔬 é\n";
    assert_snapshot!(text(source), @r"
        a\x1b[2J \u{202e}b \x1b]0;t\x07 pay\u{200b}pal c\rd

        \x1b

        \x1b[31m\x9bx
        	e\u{feff}

        \x1b
        ────
        \x1b

        <b \x1b>

        [x](https://a.example/\x1b\x1b)

        👩‍🔬 é
        ");
}

#[test]
fn a_long_line_is_given_in_pieces() {
    let mut blocks = Blocks::new(80);
    let (mut given, mut bytes) = (0, 0);
    for number in 0..10_240 {
        let lines = blocks.push(&"word é ".repeat(128));
        given += lines.len();
        bytes += lines.iter().map(|line| line.text().len()).sum::<usize>();
        assert!(number % 100 != 0 || joined(&blocks.pending(usize::MAX)).len() <= 2 * 64 * 1024);
    }
    bytes += joined(&blocks.finish()).len();
    assert!(given > 150 && bytes > 10_200 * 1000, "{given} {bytes}");
}

#[test]
fn a_long_table_repeats_its_head_and_a_long_item_keeps_its_place() {
    let rows: String = (0..20_000).map(|row| format!("| {row} | x |\n")).collect();
    let table = text(&format!("| n | v |\n|---|---|\n{rows}\nend\n"));
    let shown: Vec<&str> = table.lines().filter(|line| line.ends_with("  x")).collect();
    assert_eq!((shown.len(), shown[19_999].split(' ').next()), (20_000, Some("19999")));
    let items: String = (0..10_000).map(|item| format!("   - item {item}\n")).collect();
    let list = text(&format!("1. first\n{items}\n   ```\n{}   ```\n2. second\n", "   *x*\n".repeat(20_000)));
    assert_eq!(list.lines().filter(|line| line.starts_with("   ◦ item ")).count(), 10_000);
    assert_eq!(list.lines().filter(|line| *line == "*x*").count(), 20_000);
    assert!(list.ends_with("2. second\n"));
}

#[test]
fn deep_nesting_is_shown_as_text() {
    for source in ["> ".repeat(100), "- ".repeat(100), "1. ".repeat(100)] {
        let source = format!("{source}x");
        assert_eq!(text(&source), format!("{source}\n"));
    }
    let steps: String = (0..100).map(|depth| format!("{}- x\n", "  ".repeat(depth))).collect();
    assert!(lines(&steps).iter().all(|line| line.text().len() < 60));
}

#[test]
fn definitions_of_links_are_not_lost() {
    assert_snapshot!(text("[a]: https://a.example\n[a]: b\n\n- [x]: c\n- d\n\n  [x]: e\n\n  [x]: f\n"), @r"
        [a]: https://a.example [a]: b

        • [x]: c
        • d

          [x]: e

          [x]: f
        ");
}

/// Generates pieces that have a meaning in Markdown, and some that must not reach a terminal.
fn markdown() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[ -~]{0,12}",
        "\\PC{0,6}",
        prop::sample::select(vec![
            "\n",
            "\n\n",
            "\r\n",
            "\r",
            "- ",
            "1. ",
            "> ",
            "# ",
            "```",
            "~~~",
            "```rust\n",
            "    ",
            "\t",
            "|",
            "|-|-|\n",
            "***",
            "**",
            "_",
            "`",
            "[a](https://b.c)",
            "![a](b)",
            "[a]: b\n",
            "<b>",
            "<!--",
            "-->",
            "<pre>",
            "</pre>",
            "===\n",
            "---\n",
            "$x$",
            "\\",
            "&#x1b;",
            "&#x202e;",
            "\u{1b}[2J",
            "\u{9b}",
            "\u{202e}",
            "\u{200b}",
            "水",
            "👩\u{200d}🔬",
            "e\u{301}",
            "\0",
            "[ ] ",
            "[x] ",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

/// Renders the answer in pieces of these lengths, repeated.
fn in_pieces(source: &str, lengths: &[usize]) -> Vec<Line> {
    let mut blocks = Blocks::new(60);
    let (mut given, mut rest) = (Vec::new(), source);
    for length in lengths.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let cut = rest.char_indices().nth(*length).map_or(rest.len(), |(at, _)| at);
        given.extend(blocks.push(&rest[..cut]));
        rest = &rest[cut..];
    }
    given.extend(blocks.finish());
    given
}

proptest! {
    #[test]
    fn cuts_make_no_difference(source in markdown(), lengths in prop::collection::vec(1usize..9, 1..5)) {
        prop_assert_eq!(lines(&source), in_pieces(&source, &lengths));
    }

    #[test]
    fn output_is_printable(source in markdown()) {
        for line in lines(&source) {
            for span in &line.spans {
                prop_assert!(!span.text.is_empty());
                prop_assert!(!span.text.contains(|c: char| (c.is_control() && c != '\t')
                    || matches!(c, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')), "{:?}", span.text);
                let link = span.link.as_deref().unwrap_or_default();
                prop_assert!(link.bytes().all(|byte| byte.is_ascii_graphic()), "{link:?}");
            }
        }
    }

    #[test]
    fn fenced_code_is_the_same_characters(code in "([a-z*_#>|<&\\[\\] \\\\.-]|\t){0,40}(\n([a-z*_#> \\\\-]){0,20}){0,5}") {
        let shown = text(&format!("```text\n{code}\n```\n"));
        prop_assert_eq!(shown, format!("{code}\n"));
    }
}

/// Long answers at boundaries of pieces.
#[test]
fn cuts_make_no_difference_in_long_answers() {
    let sources = [
        "wörd ".repeat(60_000),
        format!("```\n{}\n```\n", "é".repeat(100_000)),
        format!("- {}\n- b\n", "水 ".repeat(50_000)),
        format!("> {}\n", "x".repeat(65_534)),
        "a\n".repeat(65_536),
    ];
    for source in sources {
        let whole = lines(&source);
        assert!(whole == in_pieces(&source, &[1]));
        assert!(whole == in_pieces(&source, &[4097, 3]));
    }
}
