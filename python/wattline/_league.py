"""A league in parts on a Ray cluster: each machine plays some of its pieces."""

from __future__ import annotations

import os

from ._pieces import ray_module, result_of, same_build, write_whole
from ._program import build, run
from ._simulate import Progress, _shown

# A part for each processor would leave most of them idle while the last one plays.
PARTS_PER_PROCESSOR = 4


def play_on_ray(what: list[str], out: str, progress: Progress) -> None:
    """Plays all parts; their pieces are in ``out`` then."""
    ray = ray_module()
    pieces = os.path.join(out, "pieces")
    os.makedirs(pieces, exist_ok=True)
    there = ray.put(_read(pieces))
    parts = PARTS_PER_PROCESSOR * max(1, int(ray.cluster_resources().get("CPU", 1)))
    task = ray.remote(num_cpus=1, max_retries=3)(_play)
    # Ray's workers have the environment of their cluster, and not of this program.
    named = os.environ.get("WATTLINE_BINARY")
    own = build()
    part = {
        task.remote(what, f"{number}/{parts}", there, named, own): number
        for number in range(1, parts + 1)
    }
    running = list(part)
    show, end = _shown(progress)
    try:
        while running:
            ready, running = ray.wait(running, num_returns=1)
            for reference in ready:
                # As parts end, so that an interrupted league continues from them.
                told = f"part {part[reference]} of {parts}"
                for name, content in result_of(ray, reference, told, "with out=DIR").items():
                    write_whole(os.path.join(pieces, name), content)
            if show:
                show(1 - len(running) / parts)
    finally:
        for reference in running:
            ray.cancel(reference, force=True)
        end()


def _play(
    what: list[str], part: str, there: dict[str, bytes], named: str | None, wanted: str
) -> dict[str, bytes]:
    """The pieces that this part has beside those that are there."""
    import tempfile

    if named and os.path.exists(named):
        os.environ["WATTLINE_BINARY"] = named
    same_build(build(), wanted)
    with tempfile.TemporaryDirectory() as folder:
        pieces = os.path.join(folder, "pieces")
        os.makedirs(pieces)
        for name, content in there.items():
            write_whole(os.path.join(pieces, name), content)
        run("league", *what, "--out", folder, "--part", part, "--threads=1")
        return {name: content for name, content in _read(pieces).items() if there.get(name) != content}


def _read(folder: str) -> dict[str, bytes]:
    found = {}
    for name in os.listdir(folder):
        if name.endswith(".json"):
            with open(os.path.join(folder, name), "rb") as file:
                found[name] = file.read()
    return found
