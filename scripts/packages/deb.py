"""The Debian package: program, man pages, completions, copyright and changelog."""

import email.utils
import gzip
import os
import shutil
import subprocess

from .elf import DEBIAN
from .refused import Refused

# The project has no address for mail. Set DEBFULLNAME and DEBEMAIL, as for Debian's own tools, to publish under yours.
MAINTAINER = f"{os.environ.get('DEBFULLNAME', 'The llm-do authors')} <{os.environ.get('DEBEMAIL', 'llm-do@example.org')}>"
# The program has the name in a list of commands to be careful with (docs/guides/shell.md). It does not run it.
OVERRIDES = "llm-do: missing-depends-on-sensible-utils sensible-browser [usr/bin/llm-do]\n"
DESCRIPTION = """\
runtime for programs made of LLM workers
 A worker is a prompt with a signature: typed input, typed output, and a list
 of the tools, files and workers it may use. Every call goes through one
 engine, one approval gate, one sandbox and one journal.
 .
 This package has the program without local models inside the process. It
 works with hosted providers and with any compatible endpoint.
"""
COPYRIGHT = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: llm-do

Files: *
Copyright: 2026 The llm-do authors
License: Apache-2.0
 On Debian systems, the complete text of the Apache License, Version 2.0,
 can be found in /usr/share/common-licenses/Apache-2.0.
"""


def zipped(content):
    """As `gzip -9n` writes it."""
    return gzip.compress(content, 9, mtime=0)


def changelog(contents):
    date = email.utils.formatdate(contents.epoch)
    return f"llm-do ({contents.version}) unstable; urgency=medium\n\n  * See CHANGELOG.md.gz.\n\n -- {MAINTAINER}  {date}\n"


def write(contents, out):
    if shutil.which("dpkg-deb") is None:
        raise Refused("dpkg-deb is missing, which makes the Debian package", "run this on Debian, or name others with --only")
    tree = contents.work / "deb"
    doc = "usr/share/doc/llm-do"
    files = {
        "usr/bin/llm-do": contents.program.read_bytes(),
        "usr/share/lintian/overrides/llm-do": OVERRIDES.encode(),
        f"{doc}/copyright": COPYRIGHT.encode(),
        f"{doc}/changelog.gz": zipped(changelog(contents).encode()),
        f"{doc}/CHANGELOG.md.gz": zipped(contents.text("CHANGELOG.md")),
    }
    for place, content in contents.share.items():
        manual = place.startswith("man/")
        files[f"usr/share/{place}{'.gz' if manual else ''}"] = zipped(content) if manual else content
    size = sum(len(content) for content in files.values())
    files["DEBIAN/control"] = (
        f"Package: llm-do\nVersion: {contents.version}\nArchitecture: {DEBIAN[contents.elf.machine]}\n"
        f"Maintainer: {MAINTAINER}\nInstalled-Size: {-(-size // 1024)}\n"
        f"Depends: libc6 (>= {contents.elf.glibc_text}), libgcc-s1 (>= 3.0)\n"
        "Suggests: python3\nSection: utils\nPriority: optional\n"
        f"Description: {DESCRIPTION}"
    ).encode()
    for name, content in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o755 if name == "usr/bin/llm-do" else 0o644)
    path = out / f"llm-do_{contents.version}_{DEBIAN[contents.elf.machine]}.deb"
    # One thread: the bytes of xz depend on their number.
    compression = ["-Zxz", "--threads-max=1"] if contents.level == 9 else ["-Zgzip", f"-z{contents.level}"]
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", *compression, "--build", str(tree), str(path)],
        check=True, stdout=subprocess.DEVNULL, env={**os.environ, "SOURCE_DATE_EPOCH": str(contents.epoch)},
    )  # fmt: skip
    yield path
