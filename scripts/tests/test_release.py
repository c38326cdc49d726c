"""Tests of scripts/release: python3 -m unittest discover scripts/tests"""

import importlib.machinery
import importlib.util
import os
import re
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

sys.dont_write_bytecode = True
SCRIPTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SCRIPTS))
loader = importlib.machinery.SourceFileLoader("release", str(SCRIPTS / "release"))
release = importlib.util.module_from_spec(importlib.util.spec_from_loader("release", loader))
loader.exec_module(release)

from packages import archive, npm, vsix, wheel  # noqa: E402
from packages.contents import Contents  # noqa: E402
from packages.elf import Elf  # noqa: E402
from packages.refused import Refused  # noqa: E402


class Release(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_a_tag_promises_the_glibc_that_the_program_needs(self):
        self.assertEqual(wheel.tags(Elf("x86_64", (2, 17), ())), ["manylinux_2_17_x86_64", "manylinux2014_x86_64"])
        self.assertEqual(wheel.tags(Elf("aarch64", (2, 36), ())), ["manylinux_2_36_aarch64"])

    def test_a_program_of_this_machine_is_described(self):
        found = Elf.of("/bin/sh")
        self.assertIn(found.machine, ("x86_64", "aarch64"))
        self.assertGreaterEqual(found.glibc, (2, 2))

    def test_machines_are_chosen_by_name_and_all_means_each(self):
        self.assertEqual(release.chosen(["all"]), ["aarch64", "x86_64"])
        self.assertEqual(release.chosen(["x86_64", "x86_64"]), ["x86_64"])
        with self.assertRaisesRegex(Refused, "no packages for riscv64"):
            release.chosen(["riscv64"])

    def test_each_machine_is_packed_once_and_one_of_them_is_this(self):
        for programs, said in [(["/bin/sh", "/bin/cat"], "the same machine"), (["no-such-file"], "there is no program")]:
            with self.assertRaisesRegex(Refused, said):
                Contents.gather(SCRIPTS.parent, [Path(program) for program in programs], self.folder, 0, 1)
        # The head of a program for another machine: the number of the machine stands at byte 18.
        other = bytearray(Path("/bin/sh").read_bytes())
        other[18:20] = (183 if other[18] == 62 else 62).to_bytes(2, "little")
        (self.folder / "other").write_bytes(other)
        with self.assertRaisesRegex(Refused, "runs on this machine"):
            Contents.gather(SCRIPTS.parent, [self.folder / "other"], self.folder, 0, 1)

    def test_the_npm_client_depends_on_the_package_of_each_machine(self):
        every = [SimpleNamespace(elf=Elf(machine, (2, 28), ())) for machine in ("x86_64", "aarch64")]
        self.assertEqual(list(map(npm.platform, every)), ["@llm-do/linux-x64", "@llm-do/linux-arm64"])

    def test_the_extension_is_packed_with_all_that_its_list_names(self):
        listed = (SCRIPTS.parent / "editors/vscode/.vscodeignore").read_text().splitlines()
        named = {line[1:].split("/")[0] for line in listed if line.startswith("!")}
        # What a release writes: the manifest, the build and the program.
        self.assertEqual(named, {*vsix.FILES, "package.json", "dist", "bin"})

    def test_a_node_that_is_too_old_is_named_with_flags_that_exist(self):
        old = self.folder / "node"
        old.write_text("#!/bin/sh\necho v20.20.2\n")
        old.chmod(0o755)
        with mock.patch.dict(os.environ, {"PATH": str(self.folder)}):
            with self.assertRaisesRegex(Refused, r"needs Node 22 or newer, and the PATH has Node 20\.20\.2") as refused:
                vsix.node(self.folder)
            old.unlink()
            with self.assertRaisesRegex(Refused, "the PATH has no Node"):
                vsix.node(self.folder)
        for kind in re.findall(r"--only (\w+)", refused.exception.hint):
            self.assertIn(kind, set(release.KINDS) - {"vsix"})

    def test_what_is_no_program_is_refused(self):
        with self.assertRaises(Refused):
            Elf.of(SCRIPTS / "release")

    def test_an_archive_does_not_depend_on_the_order_of_its_files(self):
        files = {"b/two": (b"2", 0o755), "a": (b"1", 0o644)}
        contents = SimpleNamespace(level=9, epoch=1_700_000_000)
        one = archive.tar_gz(self.folder / "one", files, contents)
        two = archive.tar_gz(self.folder / "two", dict(reversed(files.items())), contents)
        self.assertEqual(one.read_bytes(), two.read_bytes())
        with tarfile.open(one) as tar:
            self.assertEqual([(entry.name, entry.mode) for entry in tar], [("a", 0o644), ("b/two", 0o755)])

    def test_a_folder_with_files_of_others_is_not_emptied(self):
        (self.folder / "thesis.tex").write_text("mine")
        with self.assertRaises(Refused):
            release.fresh(self.folder)
        self.assertTrue((self.folder / "thesis.tex").exists())

    def test_a_difference_between_two_builds_is_named(self):
        one, two = self.folder / "one", self.folder / "two"
        for place, text in [(one, "a"), (two, "b")]:
            place.mkdir()
            (place / "same").write_text("s")
            (place / "unlike").write_text(text)
        (two / "more").write_text("m")
        self.assertEqual(release.different(one, two), ["more", "unlike"])


if __name__ == "__main__":
    unittest.main()
