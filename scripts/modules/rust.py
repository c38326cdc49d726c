"""Reads the modules of a crate from its Rust sources, and which module names which.

A reference is a path in code: `use crate::a::B`, `super::a`, `a::b::C` where `a` is a child or was imported. Comments,
strings and everything under `#[cfg(test)]` are left out. A path through a re-export leads to the module that defines the
name. Method calls and trait implementations are not followed: they name no module.
"""

import re
from pathlib import Path

TOKEN = re.compile(
    r"""
      (?P<space>\s+|//[^\n]*)
    | (?P<comment>/\*)
    | (?P<string>[bc]?r(?P<hashes>\#*)".*?"(?P=hashes)|[bc]?"(?:\\.|[^"\\])*")
    | (?P<char>b?'(?:\\(?:x[0-9a-fA-F]{2}|u\{[^}]*\}|.)|[^'\\])')
    | (?P<lifetime>'\w+)
    | (?P<name>\$?(?:r\#)?[A-Za-z_]\w*)
    | (?P<number>\d\w*)
    | (?P<mark>::|.)
    """,
    re.VERBOSE | re.DOTALL,
)
ITEMS = {"const", "enum", "fn", "macro", "macro_rules", "static", "struct", "trait", "type", "union"}
# Words that begin an item: a comma does not end it.
ITEM_STARTS = ITEMS | {"async", "extern", "impl", "let", "mod", "pub", "unsafe", "use"}
CLOSES = {"(": ")", "[": "]", "{": "}"}


class BadSource(Exception):
    """A source that can't be read."""


class Token:
    __slots__ = ("kind", "text", "line")

    def __init__(self, kind, text, line):
        self.kind, self.text, self.line = kind, text, line


class Module:
    def __init__(self, name, parent, file):
        self.name, self.parent, self.file = name, parent, file
        self.children = {}
        # Names that `use` brings, with the paths they are imported from.
        self.imports = {}
        # Paths whose names are all imported: `use a::*`.
        self.globs = []
        # Names that the module defines.
        self.items = set()
        # Paths in its code, with their lines.
        self.paths = []

    def lineage(self):
        """The module and its ancestors, root first."""
        return [*(self.parent.lineage() if self.parent else []), self]

    def tree(self):
        """The module and everything below it."""
        yield self
        for child in self.children.values():
            yield from child.tree()

    def __str__(self):
        return "::".join(module.name for module in self.lineage())


def tokens(text, file="source"):
    found, at, line = [], 0, 1
    while at < len(text):
        match = TOKEN.match(text, at)
        kind, end = match.lastgroup, match.end()
        if kind == "hashes":
            kind = "string"
        if kind == "comment":
            end = end_of_comment(text, at, f"{file}:{line}")
        elif kind != "space":
            found.append(Token(kind, match[0], line))
        line += text.count("\n", at, end)
        at = end
    return found


def end_of_comment(text, at, place):
    """Block comments can hold others."""
    depth = 0
    for mark in re.compile(r"/\*|\*/").finditer(text, at):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    raise BadSource(f"{place}: the comment does not end")


class Reader:
    """Reads one file into a module. `folder` is where the files of its children are."""

    def __init__(self, module, folder):
        self.file = module.file
        self.tokens = tokens(self.file.read_text(), self.file)
        self.read(module, folder, 0, len(self.tokens))

    def text(self, at):
        return self.tokens[at].text if at < len(self.tokens) else ""

    def matching(self, at):
        """The index of the bracket that closes the one at `at`."""
        open_, close, depth = self.text(at), CLOSES[self.text(at)], 0
        for index in range(at, len(self.tokens)):
            depth += (self.text(index) == open_) - (self.text(index) == close)
            if depth == 0:
                return index
        raise BadSource(f"{self.file}:{self.tokens[at].line}: `{open_}` is not closed")

    def read(self, module, folder, at, end):
        depth, path_attribute = 0, None
        while at < end:
            token, following = self.tokens[at], self.text(at + 1)
            if token.text == "#" and following == "[":
                close = self.matching(at + 1)
                if self.only_in_tests(at + 2):
                    at = self.after_item(close + 1, end)
                    continue
                if [self.text(at + 2), self.text(at + 3)] == ["path", "="]:
                    path_attribute = self.text(at + 4).strip('"')
                # Attributes hold paths as well: `#[arg(value_parser = crate::name::parse)]`.
                at += 2
            elif token.kind != "name" and token.text != "::":
                depth += (token.text in CLOSES) - (token.text in CLOSES.values())
                at += 1
            elif token.text == "mod" and self.text(at + 2) in (";", "{"):
                at = self.read_module(module, folder, at, path_attribute)
                path_attribute = None
            elif token.text == "use" and following != "<":
                at = self.read_use(module, at + 1)
            else:
                if depth == 0 and token.text in ITEMS:
                    name = at + 2 if following == "!" else at + 1
                    module.items.add(self.text(name))
                at = self.read_path(module, at)

    def read_module(self, parent, folder, at, path_attribute):
        name = self.text(at + 1)
        child = parent.children[name] = Module(name, parent, self.file)
        if self.text(at + 2) == "{":
            close = self.matching(at + 2)
            self.read(child, folder / name, at + 3, close)
            return close + 1
        places = [folder / f"{name}.rs", folder / name / "mod.rs"]
        if path_attribute:
            places = [self.file.parent / path_attribute]
        child.file = next((place for place in places if place.exists()), None)
        if not child.file:
            raise BadSource(f"{self.file}:{self.tokens[at].line}: module `{name}` has no file")
        Reader(child, child.file.parent if child.file.name == "mod.rs" else child.file.parent / child.file.stem)
        return at + 3

    def read_use(self, module, at):
        """`a::{b as c, d::*}`, up to the semicolon."""

        def tree(at, prefix):
            path = list(prefix)
            while True:
                text, line = self.text(at), self.tokens[at].line
                if text == "{":
                    close, at = self.matching(at), at + 1
                    while at < close:
                        at = tree(at, path)
                        at += self.text(at) == ","
                    return close + 1
                if text == "*":
                    module.globs.append(tuple(path))
                    module.paths.append((tuple(path), line))
                    return at + 1
                if text != "::":
                    if not (text == "self" and path):
                        path.append(text)
                    if self.text(at + 1) != "::":
                        name, at = path[-1], at + 1
                        if self.text(at) == "as":
                            name, at = self.text(at + 1), at + 2
                        module.imports[name] = tuple(path)
                        module.paths.append((tuple(path), line))
                        return at
                elif not path:
                    # `::name` is another crate.
                    path.append("")
                at += 1

        return tree(at, [])

    def read_path(self, module, at):
        """`a::b::c`, as far as it is names. What follows `::` without a name before it belongs to a type or another crate."""
        line, path = self.tokens[at].line, [self.text(at)]
        if path == ["::"]:
            return at + 1 + (self.tokens[at + 1].kind == "name")
        at += 1
        while self.text(at) == "::" and self.tokens[at + 1].kind == "name":
            path.append(self.text(at + 1))
            at += 2
        if len(path) > 1:
            module.paths.append((tuple(path), line))
        return at

    def only_in_tests(self, at):
        """Whether the attribute that begins at `at` is a `cfg` that never holds outside tests."""
        return self.text(at) == "cfg" and self.cfg(at + 2)[0] is False

    def cfg(self, at):
        """What a condition is outside tests: true, false, or None where it depends; and the index behind it."""
        name, at = self.text(at), at + 1
        if self.text(at) != "(":
            while self.text(at) not in (",", ")"):
                at += 1
            return (False if name == "test" else None), at
        values, close, at = [], self.matching(at), at + 1
        while at < close:
            value, at = self.cfg(at)
            values.append(value)
            at += self.text(at) == ","
        if name == "not":
            result = None if values[0] is None else not values[0]
        elif name == "all":
            result = False if False in values else None if None in values else True
        else:
            result = True if True in values else None if None in values else False
        return result, close + 1

    def after_item(self, at, end):
        """The index behind the item, field, arm or statement that begins at `at`."""
        while self.text(at) == "#":
            at = self.matching(at + 1) + 1
        item = self.text(at) in ITEM_STARTS
        use = self.text(at) == "use"
        while at < end:
            text = self.text(at)
            if text == ";" or (text == "," and not item):
                return at + 1
            if text in CLOSES:
                at = self.matching(at)
                if text == "{" and not use:
                    return at + 1 + (self.text(at + 1) in (",", ";"))
            at += 1
        return end


class Resolver:
    """Follows paths within one crate."""

    def __init__(self, root):
        self.root = root

    def target(self, module, path):
        """The module that the path leads to, or in which its name is defined; None where that is another crate's."""
        found = self.follow(module, path, frozenset())
        return found and found[0]

    def follow(self, module, path, seen):
        """The module, and whether the path names something in it rather than the module itself."""
        if (module, path) in seen:
            return None
        seen |= {(module, path)}
        first, rest = path[0], path[1:]
        if first in ("crate", "$crate"):
            at = self.root
        elif first == "self":
            at = module
        elif first == "super":
            at = module.parent
        else:
            found = self.name(module, first, seen)
            if found is None or found[1]:
                return found
            at = found[0]
        for name in rest:
            if at is None:
                return None
            if name == "super":
                at = at.parent
                continue
            found = self.name(at, name, seen)
            if found is None or found[1]:
                # What is not found is made by a macro or comes from another crate.
                return found or (at, True)
            at = found[0]
        return at, False

    def name(self, module, name, seen):
        if name in module.children:
            return module.children[name], False
        # `pub use check::check` beside `mod check`, and `use a::a`.
        if name in module.imports and module.imports[name] != (name,):
            return self.follow(module, module.imports[name], seen)
        if name in module.items:
            return module, True
        for path in module.globs:
            found = self.follow(module, path, seen)
            if found and not found[1] and found[0] is not module:
                found = self.name(found[0], name, seen)
                if found:
                    return found
        return None


def crate(root_file):
    """The modules of the crate whose root is this file."""
    root = Module("crate", None, Path(root_file))
    Reader(root, root.file.parent)
    return root


def references(root):
    """Every module that another names: (from, to, file, line)."""
    resolver = Resolver(root)
    for module in root.tree():
        for path, line in module.paths:
            target = resolver.target(module, path)
            if target and target is not module:
                yield module, target, module.file, line
