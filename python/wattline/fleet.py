"""What many routers draw in a year, what it costs, and what a change would save.

>>> import wattline as wl
>>> fleet = wl.Fleet([wl.Site("edge", routers=10_000, rate="1Mpps")], step=3.0, seeds=[1, 2],
...                  duration="5ms", warmup="2ms")
>>> polling = fleet.year(policy="poll", price_per_kwh=0.25)     # an example of a price
>>> saved = wl.compare(polling, fleet.year(policy="powersave", price_per_kwh=0.25))
>>> saved["site"], saved["saved_energy_kwh_low"][-1] > 0
(['edge', 'total'], True)

Every watt is modelled, none is measured. A router's power is simulated at some rates, each with
several seeds; between them it is interpolated, and a day is followed sample by sample as if each
lasted long (quasi-static). An interval ``low`` to ``high`` holds what the seeds leave open (95 %
of Student's t) and what interpolation may miss. It does not hold what the server's model, the
traffic's shape or next year's traffic may be off by: no simulation knows that.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Union

from . import _wattline
from ._curve import Curve, Weights, errors, half_width, knots, weights
from ._pieces import Piece, run_all
from ._simulate import AnyPolicy, Progress, _options, _server, _shown
from ._table import Cell, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["HOURS_PER_YEAR", "Day", "Fleet", "Site", "Year", "compare"]

#: 365 days.
HOURS_PER_YEAR = 8760.0

#: One policy for all sites, or one for each of them by name.
Policies = Union[AnyPolicy, Mapping[str, AnyPolicy]]


@dataclass(frozen=True)
class Day:
    """How the rate of a router goes over whole days; each sample holds for the same time.

    Only the shape counts: :class:`Site` scales it to the mean rate of each router. Samples may
    cover several days, such as a week by hours: a year is so many repetitions.

    >>> Day((1, 3), source="two halves of a day").shape
    (0.5, 1.5)
    """

    samples: tuple[float, ...]
    #: Where they come from; shown with the results.
    source: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "samples", tuple(float(rate) for rate in self.samples))
        if not self.samples or not all(rate >= 0 and math.isfinite(rate) for rate in self.samples):
            raise _wattline.Error("a day needs samples, all of them 0 or more")
        if not sum(self.samples) > 0:
            raise _wattline.Error("a day's samples are all 0: only its shape counts, and it has none")

    @classmethod
    def built_in(cls, *, mean: float = 0.35, spikes: int = 12, seed: int = 1) -> Day:
        """The day of the traffic ``day``: a night, two humps, spikes, 288 samples of five minutes.

        ``mean`` is the mean load over the highest: a day that is nearly full has low humps.
        """
        return cls(
            tuple(_wattline.day_rates(mean, 1.0, spikes, seed)),
            source=f"built in (mean {mean:g} of the highest, {spikes} spikes, seed {seed}): drawn by "
            "what PowerSave's section 7 says of its day, whose figure is lost",
        )

    @property
    def mean(self) -> float:
        """Mean of the samples."""
        return sum(self.samples) / len(self.samples)

    @property
    def shape(self) -> tuple[float, ...]:
        """Samples over their mean."""
        mean = self.mean
        return tuple(rate / mean for rate in self.samples)


@dataclass(frozen=True)
class Site:
    """Routers of one kind: the same server, application and day; their rates may differ."""

    name: str
    routers: int
    #: Mean rate of a router over its day, such as ``"1.5Mpps"``, or one number in packets per
    #: second for each router.
    rate: str | float | Sequence[float]
    day: Day = field(default_factory=Day.built_in)
    server: str | _wattline.Server = "westmere-2010"
    app: str = "ipv4"
    #: Arrivals and lengths of the packets, as for ``simulate``; ``{rate}`` stands for the rate.
    traffic: str = "poisson:{rate},size=imix"
    #: Watts of all network cards of a router, in place of the model's: constant, yours to know.
    cards_watts: float | None = None

    def __post_init__(self) -> None:
        if self.routers < 1:
            raise self._wrong(f"routers={self.routers}: allowed are 1 and more")
        if "{rate}" not in self.traffic:
            raise self._wrong(f"traffic={self.traffic!r}: it must have {{rate}} where the rate belongs")
        if self.cards_watts is not None and not 0 <= self.cards_watts < math.inf:
            raise self._wrong(f"cards_watts={self.cards_watts}: allowed are 0 and more")
        if not isinstance(self.rate, (str, int, float)):
            object.__setattr__(self, "rate", tuple(float(rate) for rate in self.rate))
            if len(self.rates_pps()) != self.routers:
                raise self._wrong(f"{len(self.rates_pps())} rates for {self.routers} routers")
        for rate in self.rates_pps():
            if not (rate > 0 and math.isfinite(rate)):
                raise self._wrong(f"rate={rate}: allowed is what is above 0")

    def _wrong(self, problem: str) -> Exception:
        return _wattline.Error(f"site {self.name!r}: {problem}")

    def at(self, rate: str) -> _wattline.Traffic:
        """Its traffic at a rate."""
        try:
            return _wattline.Traffic(self.traffic.replace("{rate}", rate))
        except _wattline.Error as error:
            raise self._wrong(f"at {rate}: {error}") from None

    def rates_pps(self) -> tuple[float, ...]:
        """Mean rate of each router, or one that all have."""
        if isinstance(self.rate, tuple):
            return self.rate
        if isinstance(self.rate, str):
            rate = self.at(self.rate).rate_pps
            if rate is None:
                raise self._wrong(f"rate={self.rate!r}: its packets per second are not known")
            return (rate,)
        return (float(self.rate),)  # type: ignore[arg-type]

    def means(self) -> dict[float, int]:
        """How many routers there are of each mean rate."""
        rates = self.rates_pps()
        return {rates[0]: self.routers} if len(rates) == 1 else dict(Counter(rates))


class Year(Table):
    """A row for each site and one for all: energy, money and CO2 of a year, and what they rest on.

    ``low`` and ``high`` are the ends of an interval of 95 %; two more columns say which part of its
    half comes from seeds, and which from interpolation. Watts are modelled.
    """

    #: Where the figures come from: ``"modelled"``, as in a report.
    source = "modelled"

    def __init__(
        self,
        rows: list[dict[str, Cell]],
        years: dict[str, _SiteYear],
        rates: _Rates,
        seeds: tuple[int, ...],
    ) -> None:
        super().__init__({name: [row.get(name) for row in rows] for name in rows[0]})
        self._years = years
        self._rates = rates
        self._seeds = seeds

    def plot(
        self,
        x: str = "site",
        y: str = "energy_kwh_mean",
        by: str | None = None,
        *,
        ax: Axes | None = None,
    ) -> Axes:
        """A bar for each site and for all, with its interval."""
        return super().plot(x, y, by, ax=ax)

    @property
    def days(self) -> dict[str, str]:
        """The source of each site's day."""
        return {name: it.site.day.source for name, it in self._years.items()}


@dataclass(frozen=True)
class _Rates:
    """What turns energy into money and CO2, by the user's figures."""

    price_per_kwh: float | None
    grams_co2_per_kwh: float | None

    def columns(self, prefix: str, kwh: Mapping[str, float]) -> dict[str, Cell]:
        """Energy, and what follows from it, for ends and middle."""
        units: dict[str, float | None] = {
            "energy_kwh": 1.0,
            "cost": self.price_per_kwh,
            "co2_kg": None if self.grams_co2_per_kwh is None else self.grams_co2_per_kwh / 1e3,
        }
        return {
            f"{prefix}{unit}_{end}": value * factor
            for unit, factor in units.items()
            if factor is not None
            for end, value in kwh.items()
        }


@dataclass(frozen=True)
class _SiteYear:
    """A site under a policy: its curve, and its hours on it."""

    site: Site
    policy: str
    curve: Curve
    weights: Weights
    #: Watts of the building for each of a server.
    overhead: float

    def kwh(self) -> list[float]:
        """By seed."""
        return [self.overhead * self.weights.total(row) / 1e3 for row in self.curve.watts]

    def missed_kwh(self) -> float:
        """What interpolation may be off by."""
        watts = [self.overhead * watts for watts in self.curve.means()]
        return _missed(self.curve.rates_pps, watts, self.weights)

    def lost_packets(self) -> float:
        return self.weights.total(self.curve.lost_pps) * 3600

    def offered_packets(self) -> float:
        return self.weights.total(self.curve.rates_pps) * 3600

    def worst_p99_seconds(self) -> float | None:
        """At the ends of every interval of rates in which a router ever is."""
        used = [at for at, hours in enumerate(self.weights.between) if hours]
        ends = {end for at in used for end in (at, at + 1)}
        known = [it for end in ends if (it := self.curve.p99_seconds[end]) is not None]
        return max(known, default=None)


def _missed(rates: Sequence[float], watts: Sequence[float], hours: Weights) -> float:
    off = errors(rates, watts)
    return sum(error * time for error, time in zip(off, hours.between)) / 1e3


def _interval(by_seed: Sequence[float], missed: float) -> dict[str, float]:
    mean = sum(by_seed) / len(by_seed)
    around = half_width(by_seed) + missed
    return {"low": mean - around, "mean": mean, "high": mean + around}


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
        self.step = step
        self.duration = duration
        self.warmup = warmup
        names = [site.name for site in self.sites]
        if not names or len(set(names)) < len(names) or "total" in names:
            raise _wattline.Error(f"sites {names}: one or more, each with a name of its own, none 'total'")
        if len(set(self.seeds)) < max(2, len(self.seeds)):
            raise _wattline.Error(f"seeds {list(self.seeds)}: an interval needs two different ones or more")
        if not 1.01 <= step <= 10:
            raise _wattline.Error(f"step={step}: allowed are 1.01 to 10")
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
        policy: Policies = "powersave",
        price_per_kwh: float | None = None,
        grams_co2_per_kwh: float | None = None,
        overhead: float = 1.0,
        on: str = "threads",
        threads: int = 0,
        keep: str | os.PathLike[str] | None = None,
        progress: Progress = False,
    ) -> Year:
        """What the fleet draws in a year of 8760 hours under a policy, or one for each site.

        ``price_per_kwh`` and ``grams_co2_per_kwh`` are yours: without them there are no such columns.
        ``overhead`` is what the building draws for each watt of a server (its PUE), 1 by default:
        the servers alone. ``on``, ``threads``, ``keep`` and ``progress`` are as for
        :func:`wattline.sweep`.
        """
        given = {"price_per_kwh": price_per_kwh, "grams_co2_per_kwh": grams_co2_per_kwh}
        for name, value in given.items():
            if value is not None and not (value >= 0 and math.isfinite(value)):
                raise _wattline.Error(f"{name}={value}: allowed are 0 and more")
        if not 1 <= overhead < math.inf:
            raise _wattline.Error(f"overhead={overhead}: allowed are 1 and more")
        rates = _Rates(price_per_kwh, grams_co2_per_kwh)
        curves = self._curves(policy, on, threads, keep, progress)
        years = {}
        for site in self.sites:
            name, curve = curves[site.name]
            hours = weights(curve.rates_pps, site.day.shape, site.means(), HOURS_PER_YEAR)
            years[site.name] = _SiteYear(site, name, curve, hours, overhead)
        rows = [_row(name, [it], rates) for name, it in years.items()]
        rows.append(_row("total", list(years.values()), rates))
        return Year(rows, years, rates, self.seeds)

    def curves(
        self,
        *,
        policy: Policies = "powersave",
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
            raise _wattline.Error(f"policies for {sorted(policy)}; the sites are {sorted(names)}")
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
                    key = (server.toml, _known(governor), traffic.text, site.app, seed)
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


def _known(policy: AnyPolicy) -> Any:
    """What tells policies apart while this program runs: texts by value, others by themselves."""
    return policy if isinstance(policy, str) else _Same(policy)


@dataclass(frozen=True, eq=False)
class _Same:
    """An object, equal to none but itself, that lives as long as what is known of it."""

    thing: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.thing is self.thing

    def __hash__(self) -> int:
        return id(self.thing)


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


def _row(name: str, years: list[_SiteYear], rates: _Rates) -> dict[str, Cell]:
    by_seed = [sum(parts) for parts in zip(*(it.kwh() for it in years))]
    missed = sum(it.missed_kwh() for it in years)
    kwh = _interval(by_seed, missed)
    routers = sum(it.site.routers for it in years)
    offered = sum(it.offered_packets() for it in years)
    worst = [it for year in years if (it := year.worst_p99_seconds()) is not None]
    # Of the servers alone: the building's part is in the energy.
    per_router = 1e3 / HOURS_PER_YEAR / routers / years[0].overhead
    return {
        "site": name,
        "policy": ", ".join(dict.fromkeys(it.policy for it in years)),
        "routers": routers,
        **rates.columns("", kwh),
        **{f"router_power_watts_{end}": value * per_router for end, value in kwh.items()},
        "energy_kwh_by_seeds": half_width(by_seed),
        "energy_kwh_by_interpolation": missed,
        "lost_share": sum(it.lost_packets() for it in years) / offered,
        "latency_p99_worst_seconds": max(worst, default=None),
    }


def compare(before: Year, after: Year) -> Table:
    """What ``after`` saves over ``before``: a row for each site that both have, and one for all.

    The comparison is paired: seed by seed the same packets arrive, and what both have in common
    cancels. Where a site has the same hours at the same rates in both, interpolation is judged by
    the difference of the two curves. Below 0 it costs more.
    """
    if before._rates != after._rates:
        raise _wattline.Error("the years differ in price or CO2 per kWh: give both the same")
    if before._seeds != after._seeds:
        raise _wattline.Error("the years were simulated with different seeds: give both the same")
    both = [name for name in before._years if name in after._years]
    pairs = {name: _Pair([before._years[name]], [after._years[name]]) for name in both}
    others = [
        sum(it.missed_kwh() for name, it in year._years.items() if name not in both)
        for year in (before, after)
    ]
    total = _Pair(list(before._years.values()), list(after._years.values()))
    missed = sum(pair.missed_kwh() for pair in pairs.values()) + sum(others)
    rows = [pair.row(name, pair.missed_kwh(), before._rates) for name, pair in pairs.items()]
    rows.append(total.row("total", missed, before._rates))
    return Table({name: [row.get(name) for row in rows] for name in rows[0]})


@dataclass(frozen=True)
class _Pair:
    """The same sites in two years."""

    before: list[_SiteYear]
    after: list[_SiteYear]

    def missed_kwh(self) -> float:
        """For one site: what interpolation may miss of the difference."""
        old, new = self.before[0], self.after[0]
        together = old.missed_kwh() + new.missed_kwh()
        if (old.weights, old.curve.rates_pps) != (new.weights, new.curve.rates_pps):
            return together
        watts = [
            old.overhead * one - new.overhead * other
            for one, other in zip(old.curve.means(), new.curve.means())
        ]
        return min(together, _missed(old.curve.rates_pps, watts, old.weights))

    def row(self, name: str, missed: float, rates: _Rates) -> dict[str, Cell]:
        one, other = (
            [sum(parts) for parts in zip(*(it.kwh() for it in years))]
            for years in (self.before, self.after)
        )
        saved = [old - new for old, new in zip(one, other)]
        return {
            "site": name,
            "before": ", ".join(dict.fromkeys(it.policy for it in self.before)),
            "after": ", ".join(dict.fromkeys(it.policy for it in self.after)),
            "saved_share": sum(saved) / sum(one) if sum(one) else None,
            **rates.columns("saved_", _interval(saved, missed)),
            "saved_energy_kwh_by_seeds": half_width(saved),
            "saved_energy_kwh_by_interpolation": missed,
        }
