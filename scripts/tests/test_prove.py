"""Tests of scripts/prove: python3 -m unittest discover scripts/tests"""

import importlib.machinery
import importlib.util
import io
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
SCRIPTS = Path(__file__).resolve().parent.parent
loader = importlib.machinery.SourceFileLoader("prove", str(SCRIPTS / "prove"))
prove = importlib.util.module_from_spec(importlib.util.spec_from_loader("prove", loader))
loader.exec_module(prove)


class Prove(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.results = Path(folder.name)
        checks, self.terminal = prove.CHECKS, io.StringIO()
        self.addCleanup(lambda: setattr(prove, "CHECKS", checks))
        prove.CHECKS = {"sample": ("prints", ["sh", "-c", 'echo "in $PWD"; echo "$0" >&2; exit 3'])}

    def prove(self, *arguments):
        return prove.prove("sample", arguments, self.results, self.terminal)

    def test_the_output_is_kept_with_the_commit_and_the_machine(self):
        code, place = self.prove("more")
        self.assertEqual(code, 3)
        head, output, end = place.read_text().split("\n\n")
        lines = dict(line.split(":", 1) for line in head.splitlines())
        self.assertLessEqual({"check", "command", "started", "cpu", "cores", "kernel", "rustc", "commit", "load"}, set(lines))
        self.assertIn(lines["commit"].strip(), place.name)
        self.assertEqual(output, "in .\nmore")
        self.assertIn("exit code: 3\n", end)
        self.assertEqual(self.terminal.getvalue(), f"in {prove.ROOT}\nmore\n")

    def test_a_second_run_keeps_the_first(self):
        first, second = self.prove()[1], self.prove()[1]
        self.assertNotEqual(first, second)
        self.assertTrue(first.exists())

    def test_every_script_of_the_table_exists(self):
        self.doCleanups()
        self.assertIn("fuzz", prove.CHECKS)
        for name, (what, command) in prove.CHECKS.items():
            with self.subTest(name):
                self.assertTrue(what)
                self.assertTrue("/" not in command[0] or (prove.ROOT / command[0]).is_file())


if __name__ == "__main__":
    unittest.main()
