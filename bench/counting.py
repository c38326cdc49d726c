"""Counts the instructions of a program under valgrind, which load on the machine does not change."""

import ctypes
import re
import struct
import subprocess
import sys
import tempfile


def without_auxiliary_vector():
    """Lets `prctl(PR_GET_AUXV)` fail, as on older kernels: it reports a vDSO that a program under valgrind does not have."""

    def instruction(code, if_true, if_false, value):
        return struct.pack("HBBI", code, if_true, if_false, value)

    prctl, auxv, einval, allow = 157, 0x41555856, 0x0005_0016, 0x7FFF_0000
    program = [
        instruction(0x20, 0, 0, 0),
        instruction(0x15, 0, 3, prctl),
        instruction(0x20, 0, 0, 16),
        instruction(0x15, 0, 1, auxv),
        instruction(0x06, 0, 0, einval),
        instruction(0x06, 0, 0, allow),
    ]
    code = ctypes.create_string_buffer(b"".join(program))
    filters = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code)))
    libc = ctypes.CDLL(None)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, ctypes.c_ulong(2), filters):
        raise OSError("no system call can be filtered")


def count(command, **options):
    """The instructions of the command outside the kernel. The command must succeed."""
    with tempfile.TemporaryDirectory() as place:
        wrapped = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={place}/out", *map(str, command)]
        done = subprocess.run(wrapped, capture_output=True, text=True, preexec_fn=without_auxiliary_vector, **options)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or not found:
        sys.exit(f"{command[0]} failed: {done.stderr}")
    return int(found[1])
