"""The list of everything that is in the program: CycloneDX 1.5, from Cargo's own resolution and `Cargo.lock`."""

import datetime
import json
import subprocess
import tomllib


def resolved(root, triple):
    """The packages that the program is built of, without what only its tests and its build scripts need."""
    command = [
        "cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", triple,
        "--manifest-path", "crates/cli/Cargo.toml", "--no-default-features", "--features", "highlight",
    ]  # fmt: skip
    found = json.loads(subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout)
    packages = {package["id"]: package for package in found["packages"]}
    nodes = {node["id"]: node for node in found["resolve"]["nodes"]}
    start = next(id for id, package in packages.items() if package["name"] == "llm-do-cli")
    edges, waiting = {}, [start]
    while waiting:
        here = waiting.pop()
        if here in edges:
            continue
        normal = [d["pkg"] for d in nodes[here]["deps"] if any(kind["kind"] is None for kind in d["dep_kinds"])]
        edges[here] = sorted(normal)
        waiting.extend(normal)
    return packages, start, edges


def write(contents, out):
    triple = f"{contents.elf.machine}-unknown-linux-gnu"
    packages, start, edges = resolved(contents.root, triple)
    locked = tomllib.loads(contents.text("Cargo.lock").decode())["package"]
    sums = {(package["name"], package["version"]): package.get("checksum") for package in locked}

    def reference(id):
        package = packages[id]
        return f"pkg:cargo/{package['name']}@{package['version']}"

    def component(id, kind):
        package = packages[id]
        described = {
            "type": kind,
            "bom-ref": reference(id),
            "name": package["name"],
            "version": package["version"],
            "purl": reference(id),
        }
        if package["license"]:
            # Cargo once wrote `A/B` for a choice.
            described["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        checksum = sums.get((package["name"], package["version"]))
        if checksum:
            described["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        return described

    order = sorted(edges, key=reference)
    time = datetime.datetime.fromtimestamp(contents.epoch, datetime.timezone.utc)
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": component(start, "application"),
            "properties": [{"name": "glibc", "value": contents.elf.glibc_text}, {"name": "target", "value": triple}],
        },
        "components": [component(id, "library") for id in order if id != start],
        "dependencies": [{"ref": reference(id), "dependsOn": [reference(to) for to in edges[id]]} for id in order],
    }
    path = out / f"llm-do-{contents.version}-{contents.elf.machine}-linux-gnu.cdx.json"
    path.write_text(json.dumps(bill, indent=1) + "\n")
    return path
