"""Commands on a Ray cluster: the pieces of a league, and figures of the papers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ._pieces import on_ray, ray_module, same_build, write_whole
from ._program import build, run
from ._simulate import Progress, _shown

# A part for each processor would leave most of them idle while the last one plays.
PARTS_PER_PROCESSOR = 4


@dataclass(frozen=True)
class Program:
    """The program that workers run: Ray's have the environment of their cluster, not of this one."""

    named: str | None
    build: str

    @classmethod
    def own(cls) -> Program:
        """That of this process."""
        return cls(os.environ.get("WATTLINE_BINARY"), build())

    def take(self) -> None:
        """Takes it for this process, where it is the same."""
        if self.named and os.path.exists(self.named):
            os.environ["WATTLINE_BINARY"] = self.named
        same_build(build(), self.build)


@dataclass(frozen=True)
class Part:
    """Some pieces of a league."""

    program: Program
    league: list[str]
    part: str
    #: Reference to the pieces that are there, by their names.
    there: Any

    advice = "with out=DIR, the same call goes on where this one ended"

    @property
    def what(self) -> str:
        """The part, for the message of a worker that died."""
        return f"part {self.part}"

    def run(self) -> dict[str, bytes]:
        """The pieces that this part has beside those that are there."""
        import tempfile

        self.program.take()
        there: dict[str, bytes] = ray_module().get(self.there)
        with tempfile.TemporaryDirectory() as folder:
            pieces = os.path.join(folder, "pieces")
            os.makedirs(pieces)
            for name, content in there.items():
                write_whole(os.path.join(pieces, name), content)
            run("league", *self.league, "--out", folder, "--part", self.part, "--threads=1")
            return {name: it for name, it in _read(pieces).items() if there.get(name) != it}


@dataclass(frozen=True)
class Figures:
    """A paper or a figure of it."""

    program: Program
    target: str

    advice = "give the workers more memory, or compute it alone on threads"

    @property
    def what(self) -> str:
        """The target, for the message of a worker that died."""
        return self.target

    def run(self) -> list[Any]:
        """The papers of the document of ``--json``."""
        import tempfile

        self.program.take()
        with tempfile.TemporaryDirectory() as folder:
            papers: list[Any] = run("reproduce", self.target, "--out", folder)
            return papers


def figures_on_ray(figures: Sequence[str], progress: Progress) -> list[Any]:
    """The papers of all targets, in their order."""
    program = Program.own()
    tasks = [Figures(program, target) for target in figures or ("powersave", "bolla", "liao", "sohan", "copi")]
    papers: list[list[Any]] = [[] for _ in tasks]
    show, end = _shown(progress)
    try:
        for done, (at, result) in enumerate(on_ray(tasks, range(len(tasks))), 1):
            papers[at] = result
            if show:
                show(done / len(tasks))
    finally:
        end()
    return [paper for each in papers for paper in each]


def play_on_ray(what: list[str], out: str, progress: Progress) -> None:
    """Plays all parts; their pieces are in ``out`` then."""
    ray = ray_module()
    pieces = os.path.join(out, "pieces")
    os.makedirs(pieces, exist_ok=True)
    there = ray.put(_read(pieces))
    parts = PARTS_PER_PROCESSOR * max(1, int(ray.cluster_resources().get("CPU", 1)))
    program = Program.own()
    tasks = [Part(program, what, f"{number}/{parts}", there) for number in range(1, parts + 1)]
    show, end = _shown(progress)
    try:
        for done, (_, played) in enumerate(on_ray(tasks, range(parts)), 1):
            # As parts end, so that an interrupted league continues from them.
            for name, content in played.items():
                write_whole(os.path.join(pieces, name), content)
            if show:
                show(done / parts)
    finally:
        end()


def _read(folder: str) -> dict[str, bytes]:
    found = {}
    for name in os.listdir(folder):
        if name.endswith(".json"):
            with open(os.path.join(folder, name), "rb") as file:
                found[name] = file.read()
    return found
