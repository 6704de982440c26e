"""The crates that are part of a program, and what is part of it without being a crate."""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]

# What is no crate but part of the program: name, version, licence, file with its text, home.
EMBEDDED = [
    ("uPlot", "1.6.32", "MIT", "crates/daemon/src/dashboard/assets/uplot-licence.txt", "pkg:npm/uplot@1.6.32"),
]


def metadata():
    """What Cargo says of the workspace; nothing is fetched that the lock file does not name."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform"]
    command.append("x86_64-unknown-linux-gnu")
    return json.loads(subprocess.run(command, check=True, capture_output=True, cwd=ROOT).stdout)


def linked(document, root):
    """Ids of the crates that the package `root` needs at run time, itself among them."""
    nodes = {node["id"]: node for node in document["resolve"]["nodes"]}
    found, open_ = set(), [root]
    while open_:
        identity = open_.pop()
        if identity in found:
            continue
        found.add(identity)
        for dependency in nodes[identity]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                open_.append(dependency["pkg"])
    return found


def program(document, name):
    """A program's own package, and all packages in it, by name and version."""
    packages = {package["id"]: package for package in document["packages"]}
    root = next(it for it in packages.values() if it["name"] == name)
    parts = [packages[identity] for identity in linked(document, root["id"])]
    if sum(bool(package["source"]) for package in parts) < 20:
        sys.exit("linked_crates: fewer than 20 crates of others were found")
    return root, sorted(parts, key=lambda it: (it["name"], it["version"]))
