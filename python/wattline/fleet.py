"""Energy and cost of many routers in a year, and savings by changes.

>>> import wattline as wl
>>> fleet = wl.Fleet([wl.Site("edge", routers=10_000, rate="1Mpps")], step=3.0, seeds=[1, 2],
...                  duration="5ms", warmup="2ms")
>>> polling = fleet.year(policy="poll", price_per_kwh=0.25)     # an example of a price
>>> saved = wl.compare(polling, fleet.year(policy="queue-length", price_per_kwh=0.25))
>>> saved["site"], saved["saved_energy_kwh_low"][-1] > 0
(['edge', 'total'], True)

Every watt is modelled, none is measured. A router's power is simulated at some rates, each with
several seeds; between them it is interpolated, and a day is followed sample by sample as if each
lasted long (quasi-static). An interval ``low`` to ``high`` holds what the seeds leave open (95 %
of Student's t) and the error of interpolation. It does not hold errors of the server's model, of the
traffic's shape or of next year's traffic: no simulation knows these.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Union

from . import _wattline
from ._compare import compare
from ._curve import Curve, half_width, knots, weights
from ._pieces import Piece, known, run_all
from ._simulate import AnyPolicy, Progress, _options, _server, _shown
from ._site import Day, Site, within
from ._table import Cell, Table
from ._year import HOURS_PER_YEAR, Rates, SiteYear, Year, year_row

__all__ = ["HOURS_PER_YEAR", "Day", "Fleet", "Site", "Year", "compare"]

#: One policy for all sites, or one for each of them by name.
Policies = Union[AnyPolicy, Mapping[str, AnyPolicy]]


class Fleet:
    """Sites, and how finely their power is simulated.

    ``seeds`` are those of the simulations at each rate, two or more; ``step`` is the ratio between
    neighbouring rates. More seeds and smaller steps make narrower intervals. What was simulated
    once is used again by every later question to this fleet and to those made from it.
    """

    def __init__(
        self,
        sites: Iterable[Site],
        *,
        seeds: Iterable[int] = range(1, 6),
        step: float = 1.2,
        duration: str = "100ms",
        warmup: str = "100ms",
    ) -> None:
        self.sites = tuple(sites)
        self.seeds = tuple(seeds)
        self.duration = duration
        self.warmup = warmup
        names = [site.name for site in self.sites]
        if not names or len(set(names)) < len(names) or "total" in names:
            raise _wattline.Error(f"sites {names}: one or more, each with a name of its own, none 'total'")
        if len(set(self.seeds)) < max(2, len(self.seeds)):
            raise _wattline.Error(f"seeds {list(self.seeds)}: an interval needs two different ones or more")
        self.step = within("step", step, 1.01, 10)
        #: Reports of finished simulations.
        self._reports: dict[Any, dict[str, Any]] = {}

    def __repr__(self) -> str:
        routers = sum(site.routers for site in self.sites)
        return f"Fleet({routers} routers: {', '.join(site.name for site in self.sites)})"

    def change(self, site: str, **fields: Any) -> Fleet:
        """The fleet with other fields of a site: what if it had another server, cards, day?

        >>> fleet = Fleet([Site("edge", routers=2, rate="1Mpps")])
        >>> fleet.change("edge", app="ipsec").sites[0].app
        'ipsec'
        """
        if site not in [it.name for it in self.sites]:
            names = ", ".join(it.name for it in self.sites)
            raise _wattline.Error(f"no site {site!r}; there are {names}")
        known = [field.name for field in dataclasses.fields(Site)]
        for name in fields:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]!r}? " if near else ""
                raise _wattline.Error(f"a site has no {name!r}; {hint}there are {', '.join(known)}")
        sites = [replace(it, **fields) if it.name == site else it for it in self.sites]
        changed = Fleet(
            sites,
            seeds=self.seeds,
            step=self.step,
            duration=self.duration,
            warmup=self.warmup,
        )
        changed._reports = self._reports
        return changed

    def consolidate(self, site: str, *, routers: int) -> Fleet:
        """The fleet with so many routers at a site, which share its whole traffic evenly.

        Whether they can carry it is in the answer: look at ``lost_share`` and ``latency_p99_worst``.
        """
        for it in self.sites:
            if it.name == site:
                total = sum(rate * count for rate, count in it.means().items())
                return self.change(site, routers=routers, rate=total / max(1, routers))
        return self.change(site)

    def year(
        self,
        *,
        policy: Policies = "queue-length",
        price_per_kwh: float | None = None,
        grams_co2_per_kwh: float | None = None,
        overhead: float = 1.0,
        on: str = "threads",
        threads: int = 0,
        keep: str | os.PathLike[str] | None = None,
        progress: Progress = False,
    ) -> Year:
        """Energy of the fleet in a year of 8760 hours under a policy, or one for each site.

        ``price_per_kwh`` and ``grams_co2_per_kwh`` are yours: without them there are no such columns.
        ``overhead`` is what the building draws for each watt of a server (its PUE), 1 by default:
        the servers alone. ``on``, ``threads``, ``keep`` and ``progress`` are as for
        :func:`wattline.sweep`.
        """
        given = {"price_per_kwh": price_per_kwh, "grams_co2_per_kwh": grams_co2_per_kwh}
        for name, value in given.items():
            if value is not None:
                within(name, value, 0)
        overhead = within("overhead", overhead, 1)
        rates = Rates(price_per_kwh, grams_co2_per_kwh)
        curves = self._curves(policy, on, threads, keep, progress)
        years = {}
        for site in self.sites:
            name, curve = curves[site.name]
            hours = weights(curve.rates_pps, site.day.shape, site.means(), HOURS_PER_YEAR)
            years[site.name] = SiteYear(site, name, curve, hours, overhead)
        rows = [year_row(name, [it], rates) for name, it in years.items()]
        rows.append(year_row("total", list(years.values()), rates))
        return Year(rows, years, rates, self.seeds)

    def curves(
        self,
        *,
        policy: Policies = "queue-length",
        on: str = "threads",
        threads: int = 0,
        keep: str | os.PathLike[str] | None = None,
        progress: Progress = False,
    ) -> Table:
        """Power, loss and latency over the rate, which ``year`` interpolates."""
        columns: dict[str, list[Cell]] = {}
        for site, (name, curve) in self._curves(policy, on, threads, keep, progress).items():
            means = curve.means()
            for at, rate in enumerate(curve.rates_pps):
                around = half_width([row[at] for row in curve.watts])
                row: dict[str, Cell] = {
                    "site": site,
                    "policy": name,
                    "rate_pps": rate,
                    "power_watts_low": means[at] - around,
                    "power_watts_mean": means[at],
                    "power_watts_high": means[at] + around,
                    "lost_pps": curve.lost_pps[at],
                    "latency_p99_seconds": curve.p99_seconds[at],
                }
                for column, value in row.items():
                    columns.setdefault(column, []).append(value)
        return Table(columns)

    def _policy(self, policy: Policies, site: str) -> AnyPolicy:
        if not isinstance(policy, Mapping):
            return policy
        names = {it.name for it in self.sites}
        if set(policy) != names:
            raise _wattline.Error(
                f"policies for {sorted(policy)}: a mapping names one for each site, and no other; "
                f"the sites are {sorted(names)}"
            )
        return policy[site]

    def _curves(
        self,
        policy: Policies,
        on: str,
        threads: int,
        keep: str | os.PathLike[str] | None,
        progress: Progress,
    ) -> dict[str, tuple[str, Curve]]:
        """The name of the policy and the curve, of each site."""
        options = _options(self.duration, self.warmup, None, False, "")
        wanted: dict[Any, Piece] = {}
        places: dict[str, tuple[list[float], list[list[Any]]]] = {}
        policies = {site.name: _key(self._policy(policy, site.name)) for site in self.sites}
        length = (self.duration, self.warmup)
        for site in self.sites:
            governor = self._policy(policy, site.name)
            server = _server(site.server)
            rates = knots(max(site.means()) * max(site.day.shape), self.step)
            keys: list[list[Any]] = []
            for seed in self.seeds:
                keys.append([])
                for rate in rates:
                    # Nothing at all has no arrival process: a packet in hundred seconds stands for it.
                    traffic = site.at(f"{max(rate, 0.01):.6f}pps")
                    key = (server.toml, policies[site.name], traffic.text, site.app, seed, *length)
                    keys[-1].append(key)
                    if key not in self._reports:
                        wanted[key] = Piece(server, governor, traffic, site.app, seed, options)
            places[site.name] = (rates, keys)
        show, end = _shown(progress)
        try:
            texts = run_all(list(wanted.values()), on=on, threads=threads, keep=keep, show=show)
        finally:
            end()
        self._reports.update(zip(wanted, map(json.loads, texts)))
        found = {}
        for site in self.sites:
            rates, keys = places[site.name]
            reports = [[self._reports[key] for key in row] for row in keys]
            curve = _curve(rates, reports).with_cards(site.cards_watts)
            found[site.name] = (str(reports[0][0]["policy"]), curve)
        return found


def _key(policy: AnyPolicy) -> Any:
    """Distinguishes policies: their text, or their present identity in Python."""
    try:
        return json.dumps(known(policy), sort_keys=True)
    except _wattline.Error:
        # Its content cannot be seen: it may have changed at the next question.
        return object()


def _curve(rates: list[float], reports: list[list[dict[str, Any]]]) -> Curve:
    def each(of: Any) -> tuple[tuple[float, ...], ...]:
        return tuple(tuple(float(of(report)) for report in row) for row in reports)

    columns = list(zip(*reports))
    return Curve(
        rates_pps=tuple(rates),
        watts=each(lambda report: report["power_watts"]),
        card_watts=each(lambda report: report["power_by_component_watts"]["nic"]),
        lost_pps=tuple(
            sum(it["dropped_packets"] / it["duration_seconds"] for it in column) / len(column)
            for column in columns
        ),
        p99_seconds=tuple(
            max((p99 for it in column if (p99 := it["latency_p99_seconds"]) is not None), default=None)
            for column in columns
        ),
    )
