"""Tests of scripts/comments: python3 -m unittest discover scripts/tests"""

import importlib.machinery
import importlib.util
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
SCRIPT = Path(__file__).resolve().parent.parent / "comments"
loader = importlib.machinery.SourceFileLoader("comments", str(SCRIPT))
comments = importlib.util.module_from_spec(importlib.util.spec_from_loader("comments", loader))
loader.exec_module(comments)


class Comments(unittest.TestCase):
    def test_only_the_first_word_of_a_comment_is_judged(self):
        text = "/// Whether it runs.\nfn a() {}\n/// Returns true if it runs,\n/// whether or not it waits.\n/// It waits.\nfn b() {}\n"
        self.assertEqual(list(comments.without_subject(text)), [(1, "/// Whether it runs.")])

    def test_other_comments_and_strings_are_passed_over(self):
        text = '// What follows is code.\nlet a = "/// What";\n/// `What` is a type.\n//! Names of files.\n'
        self.assertEqual(list(comments.without_subject(text)), [])


if __name__ == "__main__":
    unittest.main()
