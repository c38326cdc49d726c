"""Tests of scripts/module-graph: python3 -m unittest discover scripts/tests"""

import contextlib
import importlib.machinery
import importlib.util
import io
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
SCRIPTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SCRIPTS))
loader = importlib.machinery.SourceFileLoader("module_graph", str(SCRIPTS / "module-graph"))
module_graph = importlib.util.module_from_spec(importlib.util.spec_from_loader("module_graph", loader))
loader.exec_module(module_graph)
graph, rust = module_graph.graph, module_graph.rust

RING = {
    "lib.rs": "mod a; mod b; mod c; mod d; mod e;",
    "a.rs": "use crate::b::B;\npub struct A;",
    "b.rs": "pub struct B;\nfn f() -> u8 { super::c::g() }",
    "c.rs": "use crate::{d::{self, D as Other}, e::E};\npub fn g() -> u8 { d::h() }",
    "d.rs": "pub struct D;\npub fn h() -> u8 { 1 }\nfn i(_: crate::a::A) {}",
    "e.rs": "pub struct E;",
}


class Repository(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.base = Path(folder.name)
        (self.base / "docs").mkdir()
        (self.base / module_graph.PAGE).write_text("# Architecture\n")

    def crate(self, files, name="sample", manifest=""):
        folder = self.base / "crates" / name
        for path, text in files.items():
            file = folder / "src" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        (folder / "Cargo.toml").write_text(f'[package]\nname = "{name}"\n{manifest}')
        return folder

    def edges(self, files):
        """The edges between modules of the first level, as `a -> b`."""
        root = rust.crate(self.crate(files) / "src/lib.rs")
        first = module_graph.levels(root)[0].graph()
        return {f"{node} -> {other}" for node, others in first.items() for other in others}

    def run_script(self, *arguments):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            code = module_graph.main(list(arguments), self.base)
        return code, errors.getvalue()


class Cycles(Repository):
    def test_a_planted_cycle_fails_with_its_files_and_lines(self):
        self.crate(RING)
        self.run_script()
        code, errors = self.run_script("--check")
        self.assertEqual(code, 1)
        self.assertIn("sample: 4 modules form a cycle: a, b, c, d\n", errors)
        self.assertIn("  a -> b  crates/sample/src/a.rs:1\n", errors)
        self.assertIn("  b -> c  crates/sample/src/b.rs:2\n", errors)
        self.assertIn("  c -> d  crates/sample/src/c.rs:1,2\n", errors)
        self.assertIn("  d -> a  crates/sample/src/d.rs:3\n", errors)
        self.assertNotIn("out of date", errors)

    def test_without_one_of_its_edges_there_is_no_cycle(self):
        self.crate(RING | {"d.rs": "pub struct D;\npub fn h() -> u8 { 1 }"})
        self.run_script()
        self.assertEqual(self.run_script("--check"), (0, ""))

    def test_three_modules_may_form_a_cycle(self):
        self.crate(RING | {"b.rs": "pub struct B;\nuse crate::d::D;"})
        self.run_script()
        self.assertEqual(self.run_script("--check"), (0, ""))

    def test_a_cycle_of_children_is_found(self):
        children = {f"inner/{name}": text.replace("crate::", "super::") for name, text in RING.items() if name != "lib.rs"}
        self.crate({"lib.rs": "mod inner;", "inner.rs": RING["lib.rs"]} | children)
        self.run_script()
        code, errors = self.run_script("--check")
        self.assertEqual(code, 1)
        self.assertIn("sample, in crate::inner: 4 modules form a cycle: a, b, c, d\n", errors)

    def test_components_and_reduction(self):
        edges = {"a": {"b", "c"}, "b": {"c"}, "c": {"d"}, "d": {"c"}, "e": set()}
        self.assertEqual(graph.components(edges), [("c", "d"), ("b",), ("a",), ("e",)])
        self.assertEqual(
            graph.reduced(graph.condensed(edges)),
            {("c", "d"): set(), ("b",): {("c", "d")}, ("a",): {("b",)}, ("e",): set()},
        )


class References(Repository):
    def test_text_is_no_reference(self):
        code = """
            //! [`crate::b::B`]
            /* use crate::b::B; /* nested */ crate::b::f(); */
            /// See [crate::b].
            const TEXT: &str = "use crate::b; \\" crate::b::f()";
            const RAW: &str = r#"crate::b::f() " "#;
            const QUOTE: char = '"'; // "
            fn f<'a>(x: &'a str) -> char { '\\'' }
        """
        self.assertEqual(self.edges({"lib.rs": "mod a; mod b;", "a.rs": code, "b.rs": "pub struct B;"}), set())

    def test_code_for_tests_is_no_reference(self):
        code = """
            #[cfg(test)]
            use crate::b::B;
            #[cfg(all(test, unix))]
            mod tests { use crate::b::B; fn f() { if true { crate::b::f(); } } }
            #[cfg(test)]
            mod more;
            struct S { #[cfg(test)] b: crate::b::B, c: crate::c::C }
            #[cfg(test)]
            #[allow(unused)]
            fn g<A, B>(a: A, b: B) -> crate::b::B { crate::b::B }
            #[cfg(not(test))]
            fn h() { crate::d::h() }
        """
        files = {"lib.rs": "mod a; mod b; mod c; mod d;", "a.rs": code, "a/more.rs": "use crate::b::B;"}
        files |= {"b.rs": "pub struct B;", "c.rs": "pub struct C;", "d.rs": "pub fn h() {}"}
        self.assertEqual(self.edges(files), {"a -> c", "a -> d"})

    def test_a_re_export_leads_to_the_definition(self):
        files = {
            "lib.rs": "mod a; mod b; mod c; pub use b::B; pub use std::fmt;",
            "a.rs": "use crate::{B, c::again::f, fmt::Debug};",
            "b.rs": "pub struct B; pub fn f() {}",
            "c.rs": "pub mod again { pub use crate::b::*; }",
        }
        self.assertEqual(self.edges(files), {"a -> b", "c -> b"})

    def test_a_path_is_followed_from_what_is_imported(self):
        files = {
            "lib.rs": "mod a; mod b; mod c;",
            "a.rs": "mod x;",
            "a/x.rs": "use super::super::b as other;\nfn f() { other::inner::g(); }\n#[arg(parse = crate::c::parse)]\nstruct S;",
            "b.rs": "pub mod inner { pub fn g() {} }",
            "c.rs": "pub fn parse() {}",
        }
        self.assertEqual(self.edges(files), {"a -> b", "a -> c"})

    def test_other_crates_and_own_children_are_no_edges(self):
        files = {
            "lib.rs": "mod a; mod b;",
            "a.rs": "mod x; use x::X; use ::b::B; fn f() -> Vec<u8> { <Vec<u8>>::b::new() }",
            "a/x.rs": "use super::f; use serde::b; pub struct X;",
            "b.rs": "",
        }
        self.assertEqual(self.edges(files), set())


class Pictures(Repository):
    def test_a_picture_out_of_date_fails(self):
        self.crate({"lib.rs": "mod a; mod b;", "a.rs": "use crate::b::B;", "b.rs": "pub struct B;"})
        self.run_script()
        self.assertEqual(self.run_script("--check"), (0, ""))
        self.crate({"a.rs": ""})
        code, errors = self.run_script("--check")
        self.assertEqual(code, 1)
        self.assertIn("docs/images/module-graph.svg is out of date", errors)

    def test_the_section_is_added_once(self):
        self.crate(RING)
        self.run_script()
        self.run_script()
        text = (self.base / module_graph.PAGE).read_text()
        self.assertTrue(text.startswith("# Architecture\n\n## Module graph\n"))
        self.assertEqual(text.count("images/module-graph.svg"), 1)

    def test_a_page_without_the_picture_fails(self):
        self.crate({"lib.rs": ""})
        self.run_script()
        (self.base / module_graph.PAGE).write_text("# Architecture\n")
        code, errors = self.run_script("--check")
        self.assertEqual(code, 1)
        self.assertIn("docs/architecture.md does not show", errors)

    def test_boxes_of_a_layer_do_not_overlap(self):
        nodes = {(f"module_{n}",): set() for n in range(12)}
        nodes[("top",)] = set(nodes)
        rows = module_graph.picture.ordered(module_graph.picture.linked(nodes))
        module_graph.picture.place(rows)
        for row in rows:
            for left, right in zip(row, row[1:]):
                self.assertLess(left.x + left.width / 2, right.x - right.width / 2)

    def test_dependencies_for_tests_are_not_drawn(self):
        self.crate({"lib.rs": ""}, "one", '[dependencies]\ntwo.workspace = true\n[dev-dependencies]\nthree = "1"\n')
        self.crate({"lib.rs": ""}, "two", '[target."cfg(unix)".dependencies]\nthree = "1"\n')
        self.crate({"lib.rs": ""}, "three")
        found = module_graph.crate_graph(module_graph.crates(self.base))
        self.assertEqual(found, {"one": {"two"}, "two": {"three"}, "three": set()})


if __name__ == "__main__":
    unittest.main()
