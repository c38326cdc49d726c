"""What a Linux program needs of the machine that it starts on."""

import re
import subprocess
from dataclasses import dataclass

from .refused import Refused

# The libraries that every glibc system has. PEP 600 allows these and some more.
EVERYWHERE = re.compile(r"^(lib(c|m|dl|rt|pthread|util)\.so\.\d|libgcc_s\.so\.1|ld-linux[-\w]*\.so\.\d)$")
MACHINES = {"X86-64": "x86_64", "AArch64": "aarch64"}
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
NODE = {"x86_64": "x64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Elf:
    """Machine, oldest glibc and libraries, as `readelf` finds them in the file."""

    machine: str
    glibc: tuple
    libraries: tuple
    # Neither symbols nor debug information.
    stripped: bool = True

    @property
    def glibc_text(self):
        return ".".join(map(str, self.glibc))

    @classmethod
    def of(cls, program):
        try:
            found = subprocess.run(
                ["readelf", "--wide", "-h", "-S", "-d", "-V", str(program)], capture_output=True, text=True, check=True
            )
        except FileNotFoundError:
            raise Refused("readelf is missing, which finds the glibc that a program needs", "install binutils") from None
        except subprocess.CalledProcessError as error:
            raise Refused(f"{program} is no ELF program: {error.stderr.strip()}", "name the program with --program") from None
        text = found.stdout
        machine = next((name for said, name in MACHINES.items() if re.search(rf"Machine:.*{said}", text)), None)
        if machine is None:
            raise Refused(f"{program} is for a machine that this script has no packages for", "build on x86_64 or aarch64")
        versions = [tuple(map(int, number.split("."))) for number in re.findall(r"\bGLIBC_(\d+(?:\.\d+)+)", text)]
        # The loader refuses packed relocations by this name (crates/cli/build.rs).
        if "GLIBC_ABI_DT_RELR" in text:
            versions.append((2, 36))
        libraries = tuple(re.findall(r"\(NEEDED\).*\[(.+)\]", text))
        strange = [name for name in libraries if not EVERYWHERE.match(name)]
        if strange:
            raise Refused(f"{program} needs {', '.join(strange)}, which not every machine has", "link it statically")
        stripped = not re.search(r" \.(symtab|debug_\w+) ", text)
        return cls(machine, max(versions, default=(2, 17))[:2], libraries, stripped)
