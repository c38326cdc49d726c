"""Tests of the grammar of worker files. tests/run calls this with the compiled parser."""

import ctypes
import faulthandler
import random
import re
import subprocess
import sys
import time
import unittest
from pathlib import Path

from tree_sitter import Language, Parser, Query, QueryCursor

GRAMMAR = Path(__file__).resolve().parent.parent
ROOT = GRAMMAR.parent.parent
# A parser that hangs ends the tests with a trace.
faulthandler.dump_traceback_later(300, exit=True)


def language(library):
    """The language in a compiled parser."""
    function = ctypes.cdll.LoadLibrary(library).tree_sitter_worker
    function.restype = ctypes.c_void_p
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return Language(capsule(function(), b"tree_sitter.Language", None))


WORKER = language(sys.argv.pop(1))
PARSER = Parser(WORKER)


def workers(*folders):
    """The worker files of the repository below these folders, without symbolic links."""
    command = ["git", "ls-files", "-z", "--", *(f"{folder}/*.worker" for folder in folders)]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return [ROOT / name for name in sorted(filter(None, names)) if not (ROOT / name).is_symlink()]


EXAMPLES = workers("examples", "crates/program/src/init")


def errors(node):
    """The places of all errors below a node."""
    if not node.has_error:
        return []
    if node.is_error or node.is_missing:
        return [f"{node.start_point.row + 1}:{node.start_point.column + 1} {'missing ' + node.type if node.is_missing else node.text[:40]}"]
    return [place for child in node.children for place in errors(child)]


def captures(text, name):
    """The texts that each capture of a query has."""
    query = Query(WORKER, (GRAMMAR / "queries" / f"{name}.scm").read_text())
    found = QueryCursor(query).captures(PARSER.parse(text.encode()).root_node)
    return {capture: {node.text.decode() for node in nodes} for capture, nodes in found.items()}


class Corpus:
    """A file of test/corpus, in the format of `tree-sitter test`: the lines between the parts end with `|||`."""

    HEAD = re.compile(r"^=+\|\|\|\n(.*)\n=+\|\|\|\n", re.M)
    DIVIDER = re.compile(r"^-+\|\|\|\n", re.M)

    def __init__(self, path):
        self.path = path
        _, *parts = self.HEAD.split(path.read_text())
        self.cases = []
        for name, part in zip(parts[::2], parts[1::2]):
            source, expected = self.DIVIDER.split(part)
            self.cases.append((name, source[:-1], " ".join(expected.split())))

    def update(self):
        """Writes the trees that the parser gives."""
        line = {mark: mark * 40 + "|||" for mark in "=-"}
        with self.path.open("w") as file:
            for name, source, _ in self.cases:
                tree = indented(str(PARSER.parse(source.encode()).root_node))
                print(line["="], name, line["="], source, line["-"], "", tree, "", sep="\n", file=file)


def indented(tree):
    """An S-expression with a node a line."""
    lines, depth = [], 0
    for token in re.findall(r"(?:\w+: )?\((?:MISSING |UNEXPECTED )?[^\s()]+|\)", tree):
        if token == ")":
            depth -= 1
            lines[-1] += token
        else:
            lines.append("  " * depth + token)
            depth += 1
    return "\n".join(lines)


CORPUS = [Corpus(path) for path in sorted((GRAMMAR / "test/corpus").glob("*.txt"))]


class Grammar(unittest.TestCase):
    maxDiff = None

    def test_the_corpus_has_the_expected_trees(self):
        self.assertGreater(sum(len(corpus.cases) for corpus in CORPUS), 20)
        for corpus in CORPUS:
            for name, source, expected in corpus.cases:
                with self.subTest(f"{corpus.path.name}: {name}"):
                    found = indented(str(PARSER.parse(source.encode()).root_node))
                    self.assertEqual(found, indented(expected))

    def test_no_example_has_an_error(self):
        self.assertGreater(len(EXAMPLES), 30)
        for path in EXAMPLES:
            with self.subTest(str(path.relative_to(ROOT))):
                self.assertEqual(errors(PARSER.parse(path.read_bytes()).root_node), [])

    def test_a_tree_has_each_byte_of_every_worker_once(self):
        for path in workers("."):
            text = path.read_bytes()
            root = PARSER.parse(text).root_node
            self.assertEqual(root.end_byte, len(text), path)
            self.assertEqual([node.type for node in root.children if node.type not in BODY], [], path)

    def test_every_prefix_of_every_example_has_a_tree(self):
        for path in EXAMPLES:
            text = path.read_bytes()
            for end in range(len(text) + 1):
                self.assertEqual(PARSER.parse(text[:end]).root_node.end_byte, len(text[:end]))

    def test_an_edited_tree_is_that_of_the_edited_text(self):
        """Pieces of all examples are typed and removed at random places."""
        chance = random.Random(35)
        pieces = [b"{{", b"}}", b"{%", b"%}", b"{#", b"#}", b"---\n", b"\n", b"{% raw %}", b"{% endraw %}", b"{{ a }}", b"'", b"a", b"{"]
        for path in EXAMPLES:
            text = path.read_bytes()
            tree = PARSER.parse(text)
            for _ in range(20):
                at = chance.randrange(len(text) + 1)
                end = min(len(text), at + chance.choice([0, 0, 1, 5]))
                piece = chance.choice(pieces)
                edited = text[:at] + piece + text[end:]
                tree.edit(at, end, at + len(piece), point(text, at), point(text, end), point(edited, at + len(piece)))
                text = edited
                tree = PARSER.parse(text, tree)
                fresh = PARSER.parse(text)
                if not fresh.root_node.has_error:
                    self.assertEqual(str(tree.root_node), str(fresh.root_node), text)

    def test_a_front_matter_ends_where_the_compiler_ends_it(self):
        for text, keys in [
            ("---\na: 1\n---\nHi\n---\nthere", "a: 1\n"),
            ("\ufeff---\r\na: 1\r\n---\r\nHi", "a: 1\r\n"),
            ("\n \n---  \na: |\n  --- \n ---\n----\n---\t\n", "a: |\n  --- \n ---\n----\n"),
            ("---\n---\n", None),
            (" ---\na: 1\n---\n", None),
            ("Hi\n---\na: 1\n---\n", None),
        ]:
            with self.subTest(text):
                root = PARSER.parse(text.encode()).root_node
                self.assertEqual(errors(root), [])
                found = [node.text.decode() for front in root.children for node in front.children if node.type == "yaml"]
                self.assertEqual(found, [] if keys is None else [keys])

    def test_text_is_all_that_is_not_jinja(self):
        text = "---\na: '{{ b }}'\n---\nOne { two } {{ three }} %} }}\n{# four #}{% raw %}{{ five }}{% endraw %} six {"
        found = captures(text, "injections")["injection.content"]
        self.assertEqual(found, {"a: '{{ b }}'\n", "One { two } ", " %} }}\n", "{{ five }}", " six {"})

    def test_the_parts_of_jinja_are_highlighted(self):
        found = captures('---\na: 1\n---\n{# c #}{% for x in xs | sort if x is odd %}{{- x.y ~ "s\\n" -}}{% endfor %}{{ f(k=1, none) }}', "highlights")
        self.assertEqual(found["comment"], {"{# c #}"})
        self.assertEqual(found["keyword"], {"for", "if", "endfor"})
        self.assertEqual(found["keyword.operator"], {"in", "is"})
        self.assertEqual(found["function"], {"sort", "odd", "f"})
        self.assertEqual(found["variable"], {"x", "xs", "k", "f"})
        self.assertEqual(found["property"], {"y"})
        self.assertEqual(found["string"], {'"s\\n"'})
        self.assertEqual(found["string.escape"], {"\\n"})
        self.assertEqual(found["punctuation.special"], {"{%", "%}", "{{-", "-}}", "{{", "}}"})
        self.assertEqual(found["punctuation.delimiter"], {"---", ".", ","})

    def test_parts_of_several_lines_fold(self):
        text = "---\na: 1\n---\n{# c\n #}{% raw %}\n{% endraw %}{{\n a }}"
        self.assertEqual(captures(text, "folds")["fold"], {"---\na: 1\n---\n", "{# c\n #}", "{% raw %}\n{% endraw %}", "{{\n a }}"})

    def test_large_and_hostile_files_take_linear_time(self):
        """Prints the CPU times. A time that is quadratic ends the tests: 5 MB would take hours."""
        head = b"---\ndescription: large\n---\n"
        for name, size, piece in [
            ("prose with Jinja", 5_000_000, b"A line of *prose* with {{ a.name | upper }} and {% if b %}more{% endif %}.\n"),
            ("text", 5_000_000, b"Some words without Jinja, and a brace { here.\n"),
            ("front matter", 5_000_000, b"key: [value, {a: b}]\n"),
            ("open outputs", 1_000_000, b"{{ "),
            ("open outputs with words", 1_000_000, b"words {{ name words "),
            ("open statements", 1_000_000, b"{% if "),
            ("comments that do not end", 5_000_000, b"{#"),
            ("raw blocks that do not end", 5_000_000, b"{% raw %}{% endra"),
            ("quotes", 1_000_000, b"{{ '\\"),
            ("brackets", 1_000_000, b"{{ [("),
            ("braces", 1_000_000, b"{"),
            ("fences", 5_000_000, b"---\n"),
        ]:
            text = (b"---\n" if name == "front matter" else head) + piece * (size // len(piece))
            started = time.process_time()
            tree = PARSER.parse(text)
            print(f"  {size // 1_000_000} MB, {name}: {time.process_time() - started:.2f} s", file=sys.stderr)
            self.assertEqual(tree.root_node.end_byte, len(text))


# The nodes of a whole file.
BODY = {"front_matter", "text", "comment", "raw", "output", "statement", "ERROR"}


def point(text, at):
    """The row and the column of a byte."""
    before = text[:at]
    return before.count(b"\n"), at - (before.rfind(b"\n") + 1)


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        for corpus in CORPUS:
            corpus.update()
    else:
        unittest.main()
