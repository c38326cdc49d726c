"""The wheel: the program, the Python module of `python/` with its types, man pages and completions.

`maturin` with `bindings = "bin"` makes wheels of programs as well. It leaves out a Python module beside the program, and the
SBOM that it adds has the paths of the machine in it. It also compiles by itself, so CI could not pack the program of its tests.
"""

import base64
import hashlib
import time
import tomllib
import zipfile

# The older name of the same promise, for an older pip.
LEGACY = {(2, 17): "manylinux2014", (2, 12): "manylinux2010", (2, 5): "manylinux1"}


def tags(elf):
    """The platform tags of PEP 600: the oldest glibc that the program starts with."""
    found = [f"manylinux_{elf.glibc[0]}_{elf.glibc[1]}_{elf.machine}"]
    if elf.glibc in LEGACY:
        found.append(f"{LEGACY[elf.glibc]}_{elf.machine}")
    return found


def metadata(contents):
    """The file METADATA, from that of the module and the README."""
    project = tomllib.loads(contents.text("python/pyproject.toml").decode())["project"]
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {project['name']}",
        f"Version: {contents.version}",
        "Summary: Runs programs made of LLM workers: typed, sandboxed, approved and recorded",
        f"License-Expression: {project['license']['text']}",
        "License-File: LICENSE",
        f"Requires-Python: {project['requires-python']}",
        "Classifier: Environment :: Console",
        *(f"Classifier: {name}" for name in project["classifiers"]),
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(lines).encode() + b"\n\n" + contents.text("README.md")


def write(contents, out):
    stem = f"llm_do-{contents.version}"
    platforms = tags(contents.elf)
    module = contents.root / "python"
    files = {
        str(path.relative_to(module)): path.read_bytes()
        for path in sorted((module / "llm_do").rglob("*"))
        if path.is_file() and path.suffix in {".py", ".pyi", ".typed"}
    }
    files[f"{stem}.data/scripts/llm-do"] = contents.program.read_bytes()
    for place, content in contents.share.items():
        files[f"{stem}.data/data/share/{place}"] = content
    files[f"{stem}.dist-info/METADATA"] = metadata(contents)
    files[f"{stem}.dist-info/licenses/LICENSE"] = contents.text("LICENSE")
    wheel = ["Wheel-Version: 1.0", "Generator: llm-do", "Root-Is-Purelib: false", *(f"Tag: py3-none-{tag}" for tag in platforms)]
    files[f"{stem}.dist-info/WHEEL"] = "\n".join([*wheel, ""]).encode()
    record = f"{stem}.dist-info/RECORD"
    lines = []
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(content)}\n")
    files[record] = "".join([*lines, f"{record},,\n"]).encode()
    path = out / f"{stem}-py3-none-{'.'.join(platforms)}.whl"
    date = time.gmtime(max(contents.epoch, 315532800))[:6]  # zip knows no time before 1980
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=contents.level) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, date)
            entry.external_attr = (0o100755 if name.endswith("/scripts/llm-do") else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    yield path
