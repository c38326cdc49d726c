"""What goes into packages: the program, its man pages and completions, and the files of the repository."""

import platform
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
    def gather(cls, root, programs, work, epoch, level):
        """The contents of the packages for each program, this machine's first: it writes man pages and completions for all."""
        for program in programs:
            if not program.is_file():
                raise Refused(f"there is no program {program}", "build it first, or leave --program out")
        kinds = [(program, Elf.of(program)) for program in programs]
        machines = [elf.machine for _, elf in kinds]
        if len(set(machines)) < len(machines):
            raise Refused("two programs are for the same machine", "give --program once for each machine")
        own = [program for program, elf in kinds if elf.machine == platform.machine()]
        if not own:
            raise Refused("no program runs on this machine, to write the man pages", "give this machine's program as well")
        share = written(root, own[0], work)
        every = []
        for program, elf in sorted(kinds, key=lambda kind: (kind[0] not in own, kind[1].machine)):
            folder = work / elf.machine
            folder.mkdir()
            stripped = folder / "llm-do"
            shutil.copyfile(program, stripped)
            stripped.chmod(0o755)
            if program in own:
                # The release profile strips already. A program of the tests has its debug information still.
                subprocess.run(["strip", "--strip-all", str(stripped)], check=True)
            elif not elf.stripped:
                raise Refused(f"{program} has debug information, which only its own machine's `strip` removes", "build for release")
            every.append(cls(root, folder, version(root), epoch, stripped, elf, level, share))
        return every

    def text(self, name):
        """The bytes of a file of the repository."""
        return (self.root / name).read_bytes()


def written(root, program, work):
    """The files below `share` that a program of this machine writes."""
    told = subprocess.run([str(program), "--version"], check=True, capture_output=True, text=True).stdout.split()
    if told[-1] != version(root):
        raise Refused(f"{program} is version {told[-1]}, and these sources are {version(root)}", "build it again")
    man = work / "man"
    subprocess.run([str(program), "man", str(man)], check=True, stdout=subprocess.DEVNULL)
    share = {f"man/man1/{page.name}": page.read_bytes() for page in sorted(man.iterdir())}
    for shell, place in COMPLETIONS.items():
        share[place] = subprocess.run([str(program), "completions", shell], check=True, capture_output=True).stdout
    return share
