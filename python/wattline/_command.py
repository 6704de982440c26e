"""Functions of the installed program alone: the papers' figures, the league, fits and optima."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from . import _wattline
from ._league import figures_on_ray, league_of, play_on_ray
from ._program import run
from ._report import Report
from ._simulate import Progress
from ._table import Table

Path = str | os.PathLike[str]


def reproduce(
    *figures: str,
    out: Path | None = None,
    overwrite: bool = False,
    on: str = "threads",
    progress: Progress = False,
) -> Table:
    """Computes figures of the papers anew: a row for each check of ours against the published.

    ``figures`` are such as ``"powersave"`` and ``"powersave/table1"``, by default all (some
    minutes); ``out`` is a folder for pages, data and plots, where those of an earlier run are
    replaced only with ``overwrite``. ``on="ray"`` spreads the ``figures`` over the Ray cluster that
    the program is connected to, or over a new one on this machine, without ``out``: checks are not
    files. Runs the program ``wattline``.
    """
    import tempfile

    if on == "ray":
        if out is not None:
            raise _wattline.Error("out: pages are made on one machine; on='ray' returns the checks")
        papers = figures_on_ray(figures, progress)
    elif on != "threads":
        raise _wattline.Error(f"on={on!r}: allowed are 'threads' and 'ray'")
    else:
        with tempfile.TemporaryDirectory() as folder:
            papers = run(
                "reproduce", *figures, "--out", os.fspath(out or folder), *["--overwrite"] * overwrite
            )
    return Table.of_reports(
        {"paper": paper["paper"], "figure": figure["id"], **check}
        for paper in papers
        for figure in paper["figures"]
        for check in figure["checks"]
    )


def league(
    file: Path | None = None,
    *,
    quick: bool = False,
    tuned: bool = False,
    out: Path | None = None,
    threads: int = 0,
    on: str = "threads",
    progress: Progress = False,
) -> Any:
    """Compares all policies with each other and with a lower bound: the document of ``--json``.

    ``file`` describes the league, by default the built-in one, which is long; ``quick`` is one of
    some minutes, ``tuned`` one of about an hour, in which rivals are tuned first. With ``out`` there
    is a page, and an interrupted league continues. It runs the program ``wattline``, or with
    ``on="ray"`` on the Ray cluster that this process is connected to, or a new one on this machine.
    Its workers need this package, and files that the league names at the same paths. The two do not
    continue each other. ``progress`` is as for :func:`wattline.sweep`, and of a cluster only.
    """
    if on not in ("threads", "ray"):
        raise _wattline.Error(f"on={on!r}: allowed are 'threads' and 'ray'")
    if on == "ray":
        if threads:
            raise _wattline.Error("threads: of this machine; Ray spreads over what its cluster has")
        if (file is not None) + quick + tuned > 1:
            raise _wattline.Error("league: give a file, quick=True or tuned=True")
        built_in = "quick" if quick else "tuned" if tuned else "full"
        return play_on_ray(league_of(file, built_in), None if out is None else os.fspath(out), progress)
    what = [os.path.abspath(file)] if file is not None else []
    what += ["--quick"] * quick + ["--tuned"] * tuned
    to = ["--out", os.fspath(out)] if out is not None else []
    return run("league", *what, *to, f"--threads={threads}")


def optimise(
    server: str | _wattline.Server,
    target: str | None = None,
    *,
    trace: Path | Table | Mapping[str, Sequence[float]] | None = None,
    app: str = "ipv4",
    size: int = 64,
    latency_bound: str | None = None,
) -> Any:
    """The cheapest cores and frequency for a rate such as ``"5Mpps"``, by the server's model.

    ``trace``, in place of the rate, has rates over time: a CSV file, or columns ``time_seconds`` and
    ``rate_pps``. Runs the program ``wattline``.
    """
    import tempfile

    if (target is None) == (trace is None):
        raise _wattline.Error("optimise: give either a rate or trace=")

    with tempfile.TemporaryDirectory() as folder:
        if not isinstance(server, str):
            text, server = server.toml, os.path.join(folder, "server.toml")
            with open(server, "w", encoding="utf-8") as file:
                file.write(text)
        if trace is not None:
            load = f"--trace={_file(trace, folder, 'trace.csv')}"
        else:
            load = f"--target={target}"
        bound = [f"--latency-bound={latency_bound}"] if latency_bound is not None else []
        return run(
            "optimise", f"--server={server}", load, f"--app={app}",
            f"--size={size}", *bound,
        )  # fmt: skip


def envelope(**options: object) -> Any:
    """The least energy for a traffic within a latency bound, and a schedule close to it.

    ``options`` are those of ``wattline envelope`` with underscores, such as
    ``traffic="poisson:5Mpps"`` and ``p99="100us"``. Runs the program ``wattline``.
    """
    return run("envelope", *_arguments(options))


def requests(workload: str, **options: object) -> Report:
    """Simulates requests to a server on the kernel's stack, such as ``"memcached:100krps"``.

    ``options`` are those of ``wattline sim --requests`` with underscores, such as
    ``policy="ondemand+84us"`` and ``duration="2s"``. Runs the program ``wattline``.
    """
    return Report(run("sim", f"--requests={workload}", *_arguments(options)))


def _arguments(options: Mapping[str, object]) -> list[str]:
    """Options of the command line.

    >>> _arguments({"output_links": True, "seed": 3, "llc_bytes": None, "sparse": False})
    ['--output-links', '--seed=3']
    """
    given = {f"--{name.replace('_', '-')}": value for name, value in options.items()}
    set_ = {name: value for name, value in given.items() if value is not None and value is not False}
    return [name if value is True else f"{name}={value}" for name, value in set_.items()]


def fit(
    rows: Path | Table | Mapping[str, Sequence[float]],
    *,
    out: Path | None = None,
    name: str = "fitted",
    base_watts: float | None = None,
    overwrite: bool = False,
) -> Any:
    """Fits a power and capacity model to measured rows: the document of ``--json``.

    ``rows`` is a CSV file, or columns ``frequency_hertz``, ``cores``, ``throughput_pps``,
    ``power_watts`` and, better, ``offered_pps``. ``out`` is the server file to write, which
    replaces another only with ``overwrite``. Runs the program ``wattline``.
    """
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        return run(
            "fit", _file(rows, folder, "rows.csv"), f"--name={name}",
            *([f"--out={os.fspath(out)}"] if out is not None else []),
            *([f"--base-watts={base_watts}"] if base_watts is not None else []),
            *["--overwrite"] * overwrite,
        )  # fmt: skip


def characterise(server: str | os.PathLike[str] = "westmere-2010", **options: object) -> Any:
    """Measures a simulated router as Bolla et al. do, and fits its model with intervals.

    ``server`` is a shipped model or a file; ``options`` are those of ``wattline characterise``, such
    as ``out="fitted.toml"``. Runs the program ``wattline``.
    """
    return run("characterise", f"--server={os.fspath(server)}", *_arguments(options))


def receive(**sizes: object) -> Any:
    """Cache misses, cycles and watts of a host's receive path, after Liao and Bhuyan.

    ``sizes`` are the options of ``wattline receive`` with underscores: ``ring=256``,
    ``llc_bytes=8 << 20``, ``proposal="all"``, ``rate="40Gbit/s"``. Runs the program ``wattline``.
    """
    return run("receive", *_arguments(sizes))


def _file(
    columns: Path | Table | Mapping[str, Sequence[float]], folder: str, name: str
) -> str:
    """The path of a CSV file; columns are written into one in ``folder``."""
    import csv

    if isinstance(columns, (str, os.PathLike)):
        return os.fspath(columns)
    # Tables and frames (pandas, polars, Arrow) have columns by name, all of which dict() knows but Arrow's.
    named: Any = columns.to_pydict() if hasattr(columns, "to_pydict") else columns
    named = named.to_dict() if isinstance(named, Table) else named
    columns = {str(it): list(named[it]) for it in getattr(named, "columns", named)}
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values()))
    return path
