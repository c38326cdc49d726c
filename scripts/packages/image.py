"""The OCI image: Debian's Python and Node with the program, as an archive that `docker load` and `podman load` read.

No daemon, no root and no base image of others are needed. `image.*.lock` name the Debian packages of a machine by SHA-256, so the
same commit gives the same bytes. Their scripts do not run; this module makes what the image needs of their results.
"""

import gzip
import hashlib
import io
import json
import re
import subprocess
import tarfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from .elf import DEBIAN
from .refused import Refused

# What the image has besides their dependencies.
PACKAGES = ["base-files", "ca-certificates", "coreutils", "dash", "nodejs", "python3"]
SUITES = {
    "debian": ["trixie", "trixie-updates"],
    "debian-security": ["trixie-security"],
}
# The archives of Debian that this machine's own sources name, and after them Debian's own of all versions.
SOURCES = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
ARCHIVE = re.compile(r"https?://[^\s\]]+?(?=/debian(?:-security)?/?(?:\s|$))")
MIRRORS = list(dict.fromkeys(found for file in SOURCES if file.is_file() for found in ARCHIVE.findall(file.read_text())))
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# The user of the image, and its folders.
USER, HOME, WORK = 1000, "home/llm-do", "work"
ENVIRONMENT = ["PATH=/usr/local/bin:/usr/bin:/bin", f"HOME=/{HOME}", "LANG=C.UTF-8"]
# Debian's packages have these as folders; on a system they are links into /usr.
MERGED = ["bin", "lib", "lib64", "sbin"]
LEFT_OUT = re.compile(r"usr/share/(man|info|locale|lintian|bug)/|usr/share/doc/[^/]+/(?!copyright$)")


def lock(machine):
    """The file that lists the packages for a machine, by Debian's name of it."""
    return Path(__file__).with_name(f"image.{machine}.lock")


def locked(machine):
    """The packages of a lock file: when they were listed, and for each its SHA-256 and its path on a mirror."""
    lines = [line.split() for line in lock(machine).read_text().splitlines() if line and not line.startswith("#")]
    (_, listed), *packages = lines
    return listed, packages


def update(work, machine):
    """Writes the lock file: what apt would install on an empty system today. apt checks the signatures."""
    (work / "lists/partial").mkdir(parents=True)
    (work / "archives/partial").mkdir(parents=True)
    (work / "status").touch()
    sources = [
        f"deb [signed-by={KEYRING}] {MIRRORS[0]}/{archive} {suite} main"
        for archive, suites in SUITES.items()
        for suite in suites
    ]
    (work / "sources.list").write_text("\n".join([*sources, ""]))
    options = {
        "APT::Architecture": machine,
        "APT::Architectures": machine,
        "APT::Install-Recommends": "false",
        "Debug::NoLocking": "true",
        "Dir::Cache": work,
        "Dir::Etc::parts": "-",
        "Dir::Etc::preferencesparts": "-",
        "Dir::Etc::sourcelist": work / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State": work,
        "Dir::State::status": work / "status",
    }
    apt = ["apt-get", "-qq", *(part for name, value in options.items() for part in ("-o", f"{name}={value}"))]
    subprocess.run([*apt, "update"], check=True)
    shown = subprocess.run(
        [*apt, "--print-uris", "-o", "Acquire::ForceHash=sha256", "install", *PACKAGES],
        check=True,
        capture_output=True,
        text=True,
    )
    found = re.findall(r"^'[^']*?/(debian(?:-security)?/pool/[^']+)' \S+ \d+ SHA256:([0-9a-f]{64})$", shown.stdout, re.M)
    if len(found) < len(PACKAGES):
        raise Refused("apt lists no packages for the image", f"see `apt-get --print-uris`:\n{shown.stdout[:500]}")
    head = f"# The Debian packages of the OCI image for {machine}, written by `scripts/release --update-image`.\n"
    listed = time.strftime("%Y%m%dT000000Z", time.gmtime())
    lines = [f"{digest}  {path}\n" for path, digest in sorted(found)]
    lock(machine).write_text(head + f"listed {listed}\n" + "".join(lines))
    return len(lines)


def fetched(digest, path, listed, cache):
    """A Debian package, from the mirror or from Debian's archive of that day."""
    kept = cache / f"{digest}.deb"
    if not kept.exists():
        archive, rest = path.split("/", 1)
        places = [f"{mirror}/{path}" for mirror in MIRRORS] + [f"http://snapshot.debian.org/archive/{archive}/{listed}/{rest}"]
        for place in places:
            try:
                with urllib.request.urlopen(place, timeout=60) as answer:
                    content = answer.read()
            except (urllib.error.URLError, OSError):
                continue
            if hashlib.sha256(content).hexdigest() == digest:
                break
        else:
            raise Refused(
                f"{path} is on no mirror with the SHA-256 of its lock file",
                "scripts/release --update-image takes newer packages",
            )
        cache.mkdir(parents=True, exist_ok=True)
        part = kept.with_suffix(".part")
        part.write_bytes(content)
        part.rename(kept)
    return kept


def merged(name):
    """A path of a package on a system whose /bin, /lib, /lib64 and /sbin are links."""
    name = name.removeprefix("./").rstrip("/")
    return f"usr/{name}" if name.split("/", 1)[0] in MERGED else name


class Layer:
    """Files of a layer by path. The same files give the same bytes."""

    def __init__(self, epoch):
        self.entries, self.epoch = {}, epoch

    def add(self, name, content=b"", mode=0o644, kind=tarfile.REGTYPE, link="", owner=0):
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname, entry.mode, entry.uid, entry.gid = kind, link, mode, owner, owner
        entry.size = len(content) if kind == tarfile.REGTYPE else 0
        self.entries[name] = (entry, content)

    def folder(self, name, mode=0o755, owner=0):
        self.add(name, mode=mode, kind=tarfile.DIRTYPE, owner=owner)

    def link(self, name, target):
        self.add(name, mode=0o777, kind=tarfile.SYMTYPE, link=target)

    def package(self, deb):
        """Adds the files of a Debian package, and its entry in dpkg's list."""
        files = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(deb)], check=True, capture_output=True).stdout
        with tarfile.open(fileobj=io.BytesIO(files)) as tar:
            for entry in tar:
                name = merged(entry.name)
                if name in ("", ".") or LEFT_OUT.search(name + ("/" if entry.isdir() else "")):
                    continue
                link = merged(entry.linkname) if entry.islnk() else entry.linkname
                content = tar.extractfile(entry).read() if entry.isreg() else b""
                # No package of the image needs a program with the rights of another user.
                self.add(name, content, entry.mode & 0o1777, entry.type, link)
        fields = subprocess.run(["dpkg-deb", "--field", str(deb)], check=True, capture_output=True, text=True).stdout
        return fields.replace("\n", "\nStatus: install ok installed\n", 1)

    def packed(self, level):
        """The layer as `.tar.gz`, and the SHA-256 of the `.tar`."""
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
            # A hard link comes after the file that it names.
            for _, (entry, content) in sorted(self.entries.items(), key=lambda item: (item[1][0].islnk(), item[0])):
                entry.mtime = self.epoch
                tar.addfile(entry, io.BytesIO(content) if entry.isreg() else None)
        plain = raw.getvalue()
        zipped = io.BytesIO()
        with gzip.GzipFile("", "wb", level, zipped, mtime=self.epoch) as file:
            file.write(plain)
        return zipped.getvalue(), hashlib.sha256(plain).hexdigest()


def system(contents):
    """The layer of Debian."""
    listed, packages = locked(DEBIAN[contents.elf.machine])
    layer, status = Layer(contents.epoch), []
    for digest, path in packages:
        status.append(layer.package(fetched(digest, path, listed, contents.root / "target/release-tools/debs")))
    for name in MERGED:
        layer.folder(f"usr/{name}")
        layer.link(name, f"usr/{name}")
    for name, mode in {
        "dev": 0o755,
        "proc": 0o755,
        "run": 0o755,
        "sys": 0o755,
        "tmp": 0o1777,
        "var/tmp": 0o1777,
    }.items():
        layer.folder(name, mode)
    # What scripts of packages would make.
    authorities = [
        content
        for name, (_, content) in sorted(layer.entries.items())
        if re.search(r"^usr/share/ca-certificates/.*\.crt$", name)
    ]
    layer.add("etc/ssl/certs/ca-certificates.crt", b"".join(authorities))
    layer.add("etc/passwd", f"root:x:0:0:root:/root:/bin/sh\nllm-do:x:{USER}:{USER}::/{HOME}:/bin/sh\n".encode())
    layer.add("etc/group", f"root:x:0:\nllm-do:x:{USER}:\n".encode())
    layer.add("var/lib/dpkg/status", "\n".join(status).encode())
    return layer


def program(contents):
    """The layer of llm-do."""
    layer = Layer(contents.epoch)
    layer.add("usr/bin/llm-do", contents.program.read_bytes(), 0o755)
    layer.add("usr/share/doc/llm-do/copyright", contents.text("LICENSE"))
    layer.folder("home")
    layer.folder(HOME, 0o700, USER)
    layer.folder(WORK, 0o755, USER)
    return layer


def described(content, media):
    return {
        "mediaType": media,
        "digest": f"sha256:{hashlib.sha256(content).hexdigest()}",
        "size": len(content),
    }


def write(contents, out):
    machine = DEBIAN[contents.elf.machine]
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(contents.epoch))
    layers = [layer.packed(contents.level) for layer in (system(contents), program(contents))]
    config = json.dumps({
        "architecture": machine,
        "os": "linux",
        "created": created,
        "config": {
            "User": f"{USER}:{USER}",
            "Env": ENVIRONMENT,
            "Entrypoint": ["/usr/bin/llm-do"],
            "WorkingDir": f"/{WORK}",
            "Labels": {"org.opencontainers.image.version": contents.version, "org.opencontainers.image.licenses": "Apache-2.0"},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{plain}" for _, plain in layers]},
        "history": [{"created": created, "created_by": made} for made in (f"packages of {lock(machine).name}", "llm-do")],
    }).encode()  # fmt: skip
    media = "application/vnd.oci.image"
    manifest = json.dumps({
        "schemaVersion": 2,
        "mediaType": f"{media}.manifest.v1+json",
        "config": described(config, f"{media}.config.v1+json"),
        "layers": [described(zipped, f"{media}.layer.v1.tar+gzip") for zipped, _ in layers],
    }).encode()  # fmt: skip
    name = f"llm-do:{contents.version}"
    entry = described(manifest, f"{media}.manifest.v1+json")
    entry["annotations"] = {
        "io.containerd.image.name": f"docker.io/library/{name}",
        "org.opencontainers.image.ref.name": contents.version,
    }
    files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}'}
    files["index.json"] = json.dumps({"schemaVersion": 2, "mediaType": f"{media}.index.v1+json", "manifests": [entry]}).encode()
    blob = {
        content: f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"
        for content in [config, manifest, *(zipped for zipped, _ in layers)]
    }
    files.update({path: content for content, path in blob.items()})
    # Docker's own form in the same archive: older versions of both programs read only this.
    saved = [{"Config": blob[config], "RepoTags": [name], "Layers": [blob[zipped] for zipped, _ in layers]}]
    files["manifest.json"] = json.dumps(saved).encode()
    path = out / f"llm-do-{contents.version}-{contents.elf.machine}-oci.tar"
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for file, content in sorted(files.items()):
            item = tarfile.TarInfo(file)
            item.size, item.mtime = len(content), contents.epoch
            tar.addfile(item, io.BytesIO(content))
    yield path
