"""Tests of scripts/docs: python3 -m unittest discover scripts/tests"""

import importlib.machinery
import importlib.util
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
SCRIPTS = Path(__file__).resolve().parent.parent
loader = importlib.machinery.SourceFileLoader("docs", str(SCRIPTS / "docs"))
docs = importlib.util.module_from_spec(importlib.util.spec_from_loader("docs", loader))
loader.exec_module(docs)


class Pages(unittest.TestCase):
    def test_links_lead_to_the_pages_of_the_site(self):
        for text, source, expected in [
            ("[a](guides/runs.md#files)", "docs/README.md", "[a](guides/runs.md#files)"),
            ("[a](../guides/runs.md)", "docs/reference/journal.md", "[a](../guides/runs.md)"),
            ("[a](docs/guides/runs.md)", "README.md", "[a](guides/runs.md)"),
            ("[a](../README.md#a-tour)", "docs/README.md", "[a](tour.md#a-tour)"),
            ("[a](../diagnostics)", "docs/guides/check.md", "[a](../diagnostics/index.md)"),
            ("![a](images/x.svg)", "docs/architecture.md", "![a](images/x.svg)"),
            ("[a](#files)", "docs/faults.md", "[a](#files)"),
            ("[a](https://example.org/x)", "docs/faults.md", "[a](https://example.org/x)"),
        ]:
            self.assertEqual(docs.page(text, source), expected)

    def test_what_has_no_page_is_named(self):
        self.assertEqual(docs.page("[it](../../examples/x)", "docs/guides/a.md"), "it (`examples/x` in the repository)")
        self.assertEqual(docs.page("[`examples/x`](examples/x)", "README.md"), "`examples/x`")

    def test_code_is_left_alone(self):
        self.assertEqual(docs.page("```yaml script\n[a](b.md)\n```\n", "docs/a.md"), "```yaml\n[a](b.md)\n```\n")

    def test_a_page_without_a_place_is_an_error(self):
        index = "# D\n\n## Guides\n\n| [One](guides/one.md) | x |\n"
        self.assertIn({"Guides": [{"One": "guides/one.md"}]}, docs.navigation({"index.md": index, "guides/one.md": ""}))
        with self.assertRaises(SystemExit):
            docs.navigation({"index.md": index, "guides/one.md": "", "guides/two.md": ""})


if __name__ == "__main__":
    unittest.main()
