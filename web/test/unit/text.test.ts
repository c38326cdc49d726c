import { describe, expect, test } from "vitest";
import { common, compare, fold, sideBySide } from "../../src/text/diff";
import { safeAddress } from "../../src/text/links";
import { isCutLog } from "../../src/text/log";
import { parse, wordsOf, type Block, type Inline } from "../../src/text/markdown";
import { pieces, start, visible } from "../../src/text/visible";
import * as format from "../../src/text/format";

const blocks = (text: string): Block[] => parse(text).map((part) => part.block);
const inlines = (text: string): Inline[] => {
  const [first] = blocks(text);
  return first?.kind === "paragraph" ? first.children : [];
};

describe("visible text", () => {
  test("nothing can hide or reorder", () => {
    for (const [written, shown] of [
      ["a\x1b[2Jb\rc", "a\\x1b[2Jb\\rc"],
      ["rm \u202etxt.\u200bexe", "rm \\u{202e}txt.\\u{200b}exe"],
      ["tag \u{e0041}", "tag \\u{e0041}"],
      ["two\n\tlines", "two\n\tlines"],
      ["half \ud800 pair", "half \\u{d800} pair"],
    ] as const) {
      expect(visible(written, "text")).toBe(shown);
    }
    expect(visible("two\nlines", "line")).toBe("two\\nlines");
    for (const blank of "\u0085\u00a0\u2003\u2028\u2800\u3000\ue000\u{1d159}\uffff") {
      expect(visible(blank, "line")).toMatch(/^\\[xu]/);
    }
  });

  test("ordinary text stays", () => {
    for (const ordinary of ["größe 水 🙂", "père", "👩\u200d🔬 ❤\ufe0f", "می\u200cخواهم", "10\u00a0%", "1\ufe0f\u20e3"]) {
      expect(visible(ordinary, "prose")).toBe(ordinary);
    }
    expect(pieces("", "prose")).toEqual([]);
  });

  test("prose hides nothing", () => {
    for (const [written, shown] of [
      ["pay\u200bpal", "pay\\u{200b}pal"],
      ["pay\u200dpal", "pay\\u{200d}pal"],
      ["x\u{e0041}\u{e0042}", "x\\u{e0041}\\u{e0042}"],
      ["🙂\ufe01\ufe02", "🙂\ufe01\\u{fe02}"],
      ["a\ufe0f", "a\\u{fe0f}"],
    ] as const) {
      expect(visible(written, "prose")).toBe(shown);
    }
  });

  test("escapes are told from the text that looks like them", () => {
    expect(pieces("\\x1b \x1b", "text")).toEqual([
      { text: "\\x1b ", escaped: false },
      { text: "\\x1b", escaped: true },
    ]);
  });

  test("long text is cut between characters", () => {
    expect(start("äöü", 2)).toBe("äö…");
    expect(start("äöü", 3)).toBe("äöü");
    expect(start("🙂🙂🙂", 2)).toBe("🙂🙂…");
  });
});

test("small costs have no exponent, and a short form", () => {
  expect([0.42, 0.0042, 0.00042, 0.0000042, 0.0000012, 0.0000001, 0.00995].map(format.cost)).toEqual([
    "$0.420", "$0.0042", "$0.00042", "$0.0000042", "$0.0000012", "<$0.000001", "$0.0100",
  ]);
});

test("columns of a table keep their alignment", () => {
  const [table] = blocks("| a | b | c | d |\n|:--|:-:|--:|---|\n| 1 | 2 | 3 | 4 |");
  expect(table).toMatchObject({ kind: "table", align: ["left", "center", "right", undefined] });
});

test("a log that reached the limit without saying so is cut", () => {
  const full = "a".repeat(256 * 1024);
  expect(isCutLog(full)).toBe(true);
  expect(isCutLog(`${"ä".repeat(128 * 1024 - 1)}x`)).toBe(true);
  expect(isCutLog(`${full}[more was printed and is not kept]\n`)).toBe(false);
  expect(isCutLog("a".repeat(256 * 1024 - 100))).toBe(false);
});

describe("links", () => {
  test("lead to the web or to a mail program and nowhere else", () => {
    for (const bad of [
      "javascript:alert(1)",
      " JaVaScRiPt:alert(1)",
      "data:text/html,<script>",
      "vbscript:x",
      "file:///etc/passwd",
      "blob:https://a/b",
      "/relative",
      "#fragment",
      "https://bank.example@evil.example/",
      "java\nscript:alert(1)",
    ]) {
      expect(safeAddress(bad), bad).toBeUndefined();
    }
    expect(safeAddress("https://bees.example/a?b#c")).toBe("https://bees.example/a?b#c");
    expect(safeAddress("mailto:ann@bees.example")).toBe("mailto:ann@bees.example");
  });
});

describe("Markdown", () => {
  test("HTML is text", () => {
    const hostile = '<script>alert(1)</script>\n\n<img src=x onerror=alert(1)> and <b onclick="x">bold</b>';
    const [script, paragraph] = blocks(hostile);
    expect(script).toEqual({ kind: "code", language: "", text: "<script>alert(1)</script>" });
    expect(JSON.stringify(paragraph)).toContain("<img src=x onerror=alert(1)>");
  });

  test("a link that leads nowhere good is text", () => {
    expect(inlines("[click](javascript:alert(1))")).toEqual([{ kind: "text", text: "[click](javascript:alert(1))" }]);
    expect(inlines("<javascript:alert(1)>")).toEqual([{ kind: "text", text: "<javascript:alert(1)>" }]);
    const [by] = inlines("[click][x]\n\n[x]: javascript:alert(1)");
    expect(by).toEqual({ kind: "text", text: "[click][x]" });
  });

  test("links keep their address", () => {
    expect(inlines("see [the *bees*](https://bees.example/)")).toEqual([
      { kind: "text", text: "see " },
      {
        kind: "link",
        address: "https://bees.example/",
        children: [{ kind: "text", text: "the " }, { kind: "emphasis", children: [{ kind: "text", text: "bees" }] }],
      },
    ]);
    expect(inlines("[bees][b]\n\n[b]: https://bees.example/").at(0)).toMatchObject({ address: "https://bees.example/" });
    expect(inlines("at https://bees.example/x now")[1]).toMatchObject({ kind: "link", address: "https://bees.example/x" });
  });

  test("images are never loaded", () => {
    expect(inlines("![a bee](https://evil.example/x.png)")).toEqual([
      { kind: "image", address: "https://evil.example/x.png", text: "a bee" },
    ]);
  });

  test("blocks", () => {
    expect(blocks("# One\n\ntext `a  b`\n\n```js\nlet x;\n  y\n```\n\n> quoted\n\n3. three\n4. four\n\n---")).toMatchObject([
      { kind: "heading", level: 1, children: [{ text: "One" }] },
      { kind: "paragraph", children: [{ text: "text " }, { kind: "code", text: "a  b" }] },
      { kind: "code", language: "js", text: "let x;\n  y" },
      { kind: "quote", children: [{ kind: "paragraph" }] },
      { kind: "list", ordered: true, start: 3, items: [{}, {}] },
      { kind: "rule" },
    ]);
    expect(blocks("- [x] done\n- [ ] open")).toMatchObject([{ items: [{ done: true }, { done: false }] }]);
    const [table] = blocks("| a | b |\n|---|---|\n| 1 | **2** |");
    expect(table).toMatchObject({ kind: "table", head: [[{ text: "a" }], [{ text: "b" }]] });
  });

  test("quoted and nested code keeps its lines", () => {
    expect(blocks("> ```\n> one\n> two\n> ```")).toMatchObject([{ children: [{ kind: "code", text: "one\ntwo" }] }]);
    expect(blocks("- item\n\n  ```\n  one\n\n  two\n  ```")).toMatchObject([
      { items: [{ children: [{ kind: "paragraph" }, { kind: "code", text: "one\n\ntwo" }] }] },
    ]);
  });

  test("entities become characters, hidden ones too, so that they can be shown as escapes", () => {
    expect(wordsOf(inlines("a &lt; b &#x202e; &bogus;"))).toBe("a < b \u202e &bogus;");
  });

  test("what did not change is taken over", () => {
    const before = parse("one\n\ntwo");
    const after = parse("one\n\ntwo more", before);
    expect(after[0]).toBe(before[0]);
    expect(after[1]).not.toBe(before[1]);
  });

  test("hostile nesting costs no time and no stack", () => {
    for (const hostile of [
      ">".repeat(50_000),
      "[".repeat(50_000),
      "*a ".repeat(30_000),
      "![".repeat(30_000),
      `${"- ".repeat(20_000)}x`,
      "`".repeat(50_000),
      "<a ".repeat(30_000),
      "[a](".repeat(20_000),
      Array.from({ length: 3000 }, (_, i) => `${" ".repeat(i % 60)}- x`).join("\n"),
      Array.from({ length: 1900 }, () => "> ".repeat(20) + "*a").join("\n\n"),
      "a|".repeat(40_000) + "\n" + "-|".repeat(40_000),
      "_".repeat(150_000),
    ]) {
      const began = performance.now();
      parse(hostile);
      expect(performance.now() - began, hostile.slice(0, 12)).toBeLessThan(1500);
    }
  });
});

describe("differences", () => {
  const shown = (before: string | null, after: string | null): string =>
    compare(before, after)
      .map((line) => ({ same: " ", removed: "-", added: "+" })[line.kind] + line.text)
      .join("|");

  test("lines that were added and removed", () => {
    expect(shown("a\nb\nc\n", "a\nx\nc\nd\n")).toBe(" a|-b|+x| c|+d");
    expect(shown(null, "a\nb\n")).toBe("+a|+b");
    expect(shown("a\n", null)).toBe("-a");
    expect(shown("", "")).toBe("");
    expect(shown("a\nb\nc\nd\ne", "b\nc\nx\ne\na")).toBe("-a| b| c|-d|+x| e|+a");
  });

  test("a comparison gives both texts back", () => {
    let seed = 7;
    const random = (below: number): number => (seed = (seed * 48271) % 2147483647) % below;
    for (let round = 0; round < 300; round++) {
      const text = (): string[] => Array.from({ length: random(14) }, () => "abcd"[random(4)] ?? "");
      const [before, after] = [text(), text()];
      const lines = compare(before.map((line) => `${line}\n`).join(""), after.map((line) => `${line}\n`).join(""));
      expect(lines.filter((line) => line.kind !== "added").map((line) => line.text)).toEqual(before);
      expect(lines.filter((line) => line.kind !== "removed").map((line) => line.text)).toEqual(after);
      for (const row of sideBySide(lines)) expect(row.before ?? row.after).toBeDefined();
    }
  });

  test("texts that share nothing take bounded time", () => {
    const many = (word: string): string => Array.from({ length: 20_000 }, (_, i) => `${word}${i}`).join("\n");
    const began = performance.now();
    expect(compare(many("a"), many("b"))).toHaveLength(40_000);
    expect(performance.now() - began).toBeLessThan(3000);
  });

  test("long stretches are folded", () => {
    const lines = compare("x\n".repeat(20) + "old\n" + "y\n".repeat(20), "x\n".repeat(20) + "new\n" + "y\n".repeat(20));
    const sections = fold(lines, (line) => line.kind === "same");
    expect(sections.map((section) => [section.folded, section.rows.length])).toEqual([
      [true, 17],
      [false, 3],
      [false, 2],
      [false, 3],
      [true, 17],
    ]);
  });

  test("only the part of a line that changed is marked", () => {
    expect(common("let a = 1;", "let b = 1;")).toEqual({ head: 4, tail: 5 });
    expect(common("🙂", "🙃")).toEqual({ head: 0, tail: 0 });
  });
});

test("numbers for people", () => {
  expect([0, 850, 12_400, 59_960, 185_000, 7_800_000].map(format.duration)).toEqual([
    "0 ms",
    "850 ms",
    "12.4 s",
    "1 min 00 s",
    "3 min 05 s",
    "2 h 10 min",
  ]);
  expect([950, 12_400, 999_949, 3_100_000].map(format.count)).toEqual(["950", "12.4k", "1000k", "3.1M"].map(String));
  expect([0, 0.0042, 0.5, 1.2].map(format.cost)).toEqual(["$0", "$0.0042", "$0.500", "$1.20"]);
});
