"""The npm packages: `llm-do` with the TypeScript client and a launcher, and one package for each platform with the program.

A platform package is an optional dependency of `llm-do` with `os` and `cpu`, so npm installs the one that fits, and nothing is
downloaded after that.
"""

import json
import os
import shutil
import subprocess

from .archive import tar_gz
from .elf import NODE
from .refused import Refused


def compiled(contents):
    """The client as JavaScript with its types. `LLM_DO_TSC` may name the compiler; else npm installs it."""
    client = contents.work / "client"
    shutil.copytree(contents.root / "clients/typescript", client, ignore=shutil.ignore_patterns("node_modules", "dist", "tests"))
    compiler = os.environ.get("LLM_DO_TSC")
    if compiler:
        # The types of Node are looked up from the folder of the client.
        (client / "node_modules").symlink_to(os.path.dirname(os.path.dirname(os.path.abspath(compiler))))
    elif shutil.which("npm"):
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--no-package-lock"], cwd=client, check=True)
        compiler = client / "node_modules/.bin/tsc"
    else:
        raise Refused("npm is missing, which installs the compiler of the client", "install Node, or leave out --only npm")
    subprocess.run([str(compiler), "-p", "tsconfig.json"], cwd=client, check=True)
    return client


def tarball(out, manifest, files, contents):
    """Writes the package as `npm pack` names it."""
    name = manifest["name"].lstrip("@").replace("/", "-")
    files["package.json"] = (json.dumps(manifest, indent=2).encode() + b"\n", 0o644)
    return tar_gz(out / f"{name}-{manifest['version']}.tgz", {f"package/{key}": value for key, value in files.items()}, contents)


def platform(contents):
    """The name of the package with the program for a machine."""
    return f"@llm-do/linux-{NODE[contents.elf.machine]}"


def write(contents, out):
    """The package with the program of one machine."""
    about = f"The program llm-do for Linux on {contents.elf.machine}, with glibc {contents.elf.glibc_text} or newer"
    manifest = {
        "name": platform(contents),
        "version": contents.version,
        "description": about + ".",
        "license": json.loads(contents.text("clients/typescript/package.json"))["license"],
        "os": ["linux"],
        "cpu": [NODE[contents.elf.machine]],
        "libc": ["glibc"],
        "preferUnplugged": True,
    }
    files = {
        "LICENSE": (contents.text("LICENSE"), 0o644),
        "README.md": (f"{about}. Install the package `llm-do`, which depends on this one.\n".encode(), 0o644),
        "bin/llm-do": (contents.program.read_bytes(), 0o755),
    }
    yield tarball(out, manifest, files, contents)


def client(every, out):
    """The package `llm-do`, which depends on the packages of all machines."""
    contents = every[0]
    folder = compiled(contents)
    described = json.loads(contents.text("clients/typescript/package.json"))
    del described["scripts"], described["devDependencies"]
    described["version"] = contents.version
    described["optionalDependencies"] = {name: contents.version for name in sorted(map(platform, every))}
    files = {"LICENSE": (contents.text("LICENSE"), 0o644), "README.md": (contents.text("README.md"), 0o644)}
    for name in ["dist", "src", "bin"]:
        for path in sorted((folder / name).rglob("*")):
            if path.is_file():
                files[str(path.relative_to(folder))] = (path.read_bytes(), 0o755 if name == "bin" else 0o644)
    return tarball(out, described, files, contents)
