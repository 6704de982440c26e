"""Running simulations."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, SupportsIndex, Union

from . import _wattline
from ._policy import Policy
from ._report import Report
from ._table import Table

#: A policy: the text of a built-in one, or a class or object with a method ``decide``.
AnyPolicy = Union[str, Policy, type[Policy], Any]
#: Progress: not shown, on standard error, or by a function that gets the share done.
Progress = Union[bool, Callable[[float], object]]


def simulate(
    *,
    traffic: str | _wattline.Traffic,
    policy: AnyPolicy = "queue-length",
    server: str | _wattline.Server = "westmere-2010",
    duration: str = "1s",
    warmup: str = "100ms",
    interval: str | None = None,
    app: str = "ipv4",
    path: str = "workers",
    output_links: bool = False,
    knob_faults: str = "",
    seed: int = 1,
    progress: Progress = False,
) -> Report:
    """Runs a policy on a server model under a traffic, in virtual time.

    The arguments are those of ``wattline sim``, and so is the result: the same figures to the last
    digit.

    >>> report = simulate(traffic="poisson:2Mpps,size=64", policy="napi", duration="10ms")
    >>> report.forwarded_packets + report.dropped_packets > 19_000
    True

    Raises :class:`wattline.Error`, a ``ValueError``, where a description is wrong, ``OSError``
    where a file cannot be read, and whatever a policy written in Python raises.
    """
    show, end = _shown(progress)
    try:
        text = _wattline.simulate(
            _server(server),
            policy,
            _traffic(traffic),
            app,
            _seed(seed),
            _options(duration, warmup, interval, output_links, knob_faults, path),
            show,
        )
    finally:
        end()
    return Report(json.loads(text))


def sweep(
    *,
    traffics: str | _wattline.Traffic | Iterable[str | _wattline.Traffic],
    policies: AnyPolicy | Iterable[AnyPolicy] = "queue-length",
    servers: str | _wattline.Server | Iterable[str | _wattline.Server] = "westmere-2010",
    apps: str | Iterable[str] = "ipv4",
    seeds: int | Iterable[int] = 1,
    duration: str = "1s",
    warmup: str = "100ms",
    path: str = "workers",
    output_links: bool = False,
    threads: int = 0,
    on: str = "threads",
    keep: str | os.PathLike[str] | None = None,
    progress: Progress = False,
) -> Table:
    """Runs every server under every policy with every traffic, application and seed.

    >>> table = sweep(traffics=["poisson:1Mpps", "poisson:2Mpps"], policies=["poll", "napi"],
    ...               duration="5ms")
    >>> table["policy"]
    ['poll', 'poll', 'napi', 'napi']

    ``seeds=3`` is the seed 3 alone; ``seeds=range(3)`` are three.

    Runs are spread over ``threads``, by default one for each core of this machine; the result does
    not depend on it. Policies written in Python take turns, since Python runs one thread at a time;
    each run has a copy of its own.

    ``on="ray"`` spreads the runs over the Ray cluster that this program is connected to, or over a
    new one on this machine (``pip install ray``). The result is the same.

    ``keep="DIR"`` writes the result of each finished run to a file of that folder, and does not run
    again what is there: a sweep that was interrupted goes on where it ended. A policy written in
    Python is known by the source of its class, its state and its attribute ``version``: change
    that when something changes that the class calls.
    """
    chosen = [_server(it) for it in _several(servers)]
    governors = _several(policies)
    offered = [_traffic(it) for it in _several(traffics)]
    numbers = [_seed(it) for it in _several(seeds)]
    if len(set(numbers)) < len(numbers):
        raise _wattline.Error("seeds: one is there twice, and would count as two draws")
    options = _options(duration, warmup, None, output_links, "", path)
    show, end = _shown(progress)
    try:
        if on == "threads" and keep is None:
            texts = _wattline.sweep(
                chosen, governors, offered, _several(apps), numbers, options, threads, show
            )
        else:
            from ._pieces import Piece, run_all

            pieces = [
                Piece(server, policy, traffic, app, seed, options)
                for server in chosen
                for policy in governors
                for traffic in offered
                for app in _several(apps)
                for seed in numbers
            ]
            texts = run_all(pieces, on=on, threads=threads, keep=keep, show=show)
    finally:
        end()
    return Table.of_reports(json.loads(text) for text in texts)


def _server(server: str | _wattline.Server) -> _wattline.Server:
    return _wattline.Server(server) if isinstance(server, str) else server


def _traffic(traffic: str | _wattline.Traffic) -> _wattline.Traffic:
    return _wattline.Traffic(traffic) if isinstance(traffic, str) else traffic


def _seed(seed: Any) -> int:
    """A seed, where it is one."""
    if not isinstance(seed, SupportsIndex) or not 0 <= seed.__index__() < 1 << 64:
        raise _wattline.Error(f"seed={seed!r}: allowed are whole numbers from 0 to 2**64 - 1")
    return seed.__index__()


def _several(values: Any) -> list[Any]:
    """A list of one or of many."""
    if isinstance(values, Iterable) and not isinstance(values, (str, type)):
        return list(values)
    return [values]


def _options(
    duration: str,
    warmup: str,
    interval: str | None,
    output_links: bool,
    knob_faults: str,
    path: str = "workers",
) -> dict[str, Any]:
    for name, value in {"duration": duration, "warmup": warmup, "interval": interval}.items():
        if not isinstance(value, str) and not (name == "interval" and value is None):
            raise _wattline.Error(f"{name}={value!r}: allowed are texts with a unit, such as '100ms'")
    return {
        "duration": duration,
        "warmup": warmup,
        "interval": interval,
        "path": path,
        "output_links": output_links,
        "knob_faults": knob_faults,
    }


def _shown(progress: Progress) -> tuple[Callable[[float], object] | None, Callable[[], None]]:
    """Functions that are called with the share that is done, and at the end."""
    if callable(progress):
        return progress, lambda: None
    if not progress:
        return None, lambda: None

    def show(share: float) -> None:
        done = int(share * 40)
        print(f"\r[{'#' * done}{'.' * (40 - done)}] {share:4.0%}", end="", file=sys.stderr)

    return show, lambda: print("\r" + " " * 50, end="\r", file=sys.stderr)
