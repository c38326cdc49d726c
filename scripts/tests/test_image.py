"""Layers of the OCI image: the same files give the same bytes, on a system with merged /usr."""

import gzip
import io
import sys
import tarfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from packages.elf import DEBIAN
from packages.image import LEFT_OUT, Layer, locked, merged


class Image(unittest.TestCase):
    def test_paths_of_packages_are_merged_into_usr(self):
        cases = {
            "./bin/sh": "usr/bin/sh",
            "./lib/x86_64-linux-gnu/": "usr/lib/x86_64-linux-gnu",
            "./usr/bin/env": "usr/bin/env",
            "./library/x": "library/x",
        }
        for path, expected in cases.items():
            self.assertEqual(merged(path), expected)

    def test_manuals_are_left_out_and_licences_stay(self):
        self.assertTrue(LEFT_OUT.search("usr/share/man/man1/ls.1.gz"))
        self.assertTrue(LEFT_OUT.search("usr/share/doc/dash/changelog.gz"))
        self.assertIsNone(LEFT_OUT.search("usr/share/doc/dash/copyright"))

    def test_same_files_give_the_same_bytes_in_any_order(self):
        def packed(names):
            layer = Layer(1_700_000_000)
            for name in names:
                layer.add(name, name.encode(), owner=1000)
            layer.add("a-link", kind=tarfile.LNKTYPE, link="b")
            return layer.packed(9)

        first, digest = packed(["b", "c"])
        self.assertEqual((first, digest), packed(["c", "b"]))
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(first))) as tar:
            entries = tar.getmembers()
        # A hard link comes after the file that it names.
        self.assertEqual([entry.name for entry in entries], ["b", "c", "a-link"])
        self.assertEqual({(entry.uid, entry.mtime) for entry in entries if entry.isreg()}, {(1000, 1_700_000_000)})

    def test_lock_files_have_a_day_and_digests(self):
        for machine in DEBIAN.values():
            listed, packages = locked(machine)
            self.assertRegex(listed, r"^\d{8}T000000Z$")
            self.assertTrue(any("/nodejs_" in path for _, path in packages) and any("/python3_" in path for _, path in packages))
            for digest, path in packages:
                self.assertRegex(digest, r"^[0-9a-f]{64}$")
                self.assertRegex(path, rf"^debian.*_({machine}|all)\.deb$")


if __name__ == "__main__":
    unittest.main()
