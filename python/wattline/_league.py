"""Commands on a Ray cluster: the pieces of a league, and figures of the papers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from . import _wattline
from ._pieces import on_ray, run_all, same_build, write_whole
from ._program import build, run
from ._simulate import Progress, _shown

@dataclass(frozen=True)
class Program:
    """The program that workers run: Ray's have the environment of their cluster, not of this one."""

    named: str | None
    build: str

    @classmethod
    def own(cls) -> Program:
        """Program of this process."""
        return cls(os.environ.get("WATTLINE_BINARY"), build())

    def take(self) -> None:
        """Takes it for this process, where it is the same."""
        if self.named and os.path.exists(self.named):
            os.environ["WATTLINE_BINARY"] = self.named
        same_build(build(), self.build)


@dataclass(frozen=True)
class Piece:
    """One run of a league, its yardsticks in one case, or a rival with its tuning."""

    league: _wattline.League
    number: int
    key: str

    advice = "with out=DIR, the same call goes on where this one ended"

    @property
    def what(self) -> str:
        """The piece, for the message of a worker that died."""
        return f"piece {self.number + 1} of the league"

    def identity(self, of: object) -> dict[str, Any]:
        """All that its result depends on."""
        return {"wattline": _wattline.__build__, "league": self.key}

    def run(self, progress: Callable[[float], object] | None = None) -> str:
        """The text of its result."""
        return self.league.play(self.number)


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


def league_of(file: str | os.PathLike[str] | None, built_in: str) -> _wattline.League:
    """The league of a file, or without one a built-in league."""
    if file is None:
        return _wattline.League.built_in(built_in)
    with open(file, encoding="utf-8") as opened:
        return _wattline.League(opened.read(), os.fspath(file))


def play_on_ray(league: _wattline.League, out: str | None, progress: Progress) -> Any:
    """The document of a league whose pieces a cluster plays; its page is in ``out`` then."""
    page_file = None if out is None else os.path.join(out, "index.html")
    if page_file is not None and os.path.exists(page_file):
        with open(page_file, encoding="utf-8", errors="replace") as file:
            if not _wattline.is_league_page(file.read()):
                raise _wattline.Error(f"out: {page_file} is no page of a league; name another folder")
    pieces = [Piece(league, number, key) for number, key in enumerate(league.keys())]
    show, end = _shown(progress)
    try:
        keep = None if out is None else os.path.join(out, "pieces")
        played = run_all(pieces, on="ray", threads=0, keep=keep, show=show)
    finally:
        end()
    again = f"wattline.league({league.name!r}, out={out!r}, on='ray')"
    document, page = league.join(played, again)
    if page_file is not None:
        write_whole(page_file, page.encode())
    return json.loads(document)
