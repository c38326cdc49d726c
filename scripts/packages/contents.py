"""What goes into packages: the program, its man pages and completions, and the files of the repository."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .elf import Elf
from .refused import Refused

__all__ = ["Contents", "Refused", "version"]

# Shells, and where their completions lie below `share` in a package.
COMPLETIONS = {
    "bash": "bash-completion/completions/llm-do",
    "fish": "fish/vendor_completions.d/llm-do.fish",
    "zsh": "zsh/vendor-completions/_llm-do",
}


def version(root):
    """The version of the workspace."""
    found = re.search(r'^\[workspace\.package\]\n(?:.+\n)*?version = "([^"]+)"', (root / "Cargo.toml").read_text(), re.M)
    if found is None:
        raise Refused("Cargo.toml has no version in [workspace.package]", "add it")
    return found[1]


@dataclass(frozen=True)
class Contents:
    """Everything that more than one kind of package has."""

    root: Path
    work: Path
    version: str
    # Seconds since 1970: the time of all files in packages.
    epoch: int
    program: Path
    elf: Elf
    # Of the compression: 9, or less where time matters more than size.
    level: int
    # Files below `share`, by their path there.
    share: dict

    @classmethod
    def gather(cls, root, program, work, epoch, level):
        if not program.is_file():
            raise Refused(f"there is no program {program}", "build it first, or leave --program out")
        stripped = work / "llm-do"
        shutil.copyfile(program, stripped)
        stripped.chmod(0o755)
        # The release profile strips already. A program of the tests has its debug information still.
        subprocess.run(["strip", "--strip-all", str(stripped)], check=True)
        told = subprocess.run([str(stripped), "--version"], check=True, capture_output=True, text=True).stdout.split()
        if told[-1] != version(root):
            raise Refused(f"{program} is version {told[-1]}, and these sources are {version(root)}", "build it again")
        man = work / "man"
        subprocess.run([str(stripped), "man", str(man)], check=True, stdout=subprocess.DEVNULL)
        share = {f"man/man1/{page.name}": page.read_bytes() for page in sorted(man.iterdir())}
        for shell, place in COMPLETIONS.items():
            script = subprocess.run([str(stripped), "completions", shell], check=True, capture_output=True).stdout
            share[place] = script
        return cls(root, work, version(root), epoch, stripped, Elf.of(stripped), level, share)

    def text(self, name):
        """The bytes of a file of the repository."""
        return (self.root / name).read_bytes()
