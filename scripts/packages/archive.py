"""The archive: program, man pages and completions, to unpack anywhere. Also the .tar.gz that npm packages are."""

import gzip
import io
import tarfile


def tar_gz(path, files, contents):
    """Writes a .tar.gz. `files` gives for each name its bytes and its mode. The same files give the same bytes."""
    with path.open("wb") as raw, gzip.GzipFile("", "wb", contents.level, raw, mtime=contents.epoch) as zipped:
        with tarfile.open(fileobj=zipped, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for name, (content, mode) in sorted(files.items()):
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode, entry.mtime = len(content), mode, contents.epoch
                entry.uname = entry.gname = "root"
                tar.addfile(entry, io.BytesIO(content))
    return path


def write(contents, out):
    name = f"llm-do-{contents.version}-{contents.elf.machine}-linux-gnu"
    files = {f"{name}/bin/llm-do": (contents.program.read_bytes(), 0o755)}
    for place, content in contents.share.items():
        files[f"{name}/share/{place}"] = (content, 0o644)
    for file in ["LICENSE", "README.md", "CHANGELOG.md"]:
        files[f"{name}/{file}"] = (contents.text(file), 0o644)
    yield tar_gz(out / f"{name}.tar.gz", files, contents)
