"""A year of a fleet: energy, money and CO2, with the basis of their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ._curve import Curve, Weights, errors, half_width
from ._site import Site
from ._table import Cell, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: 365 days.
HOURS_PER_YEAR = 8760.0


class Year(Table):
    """A row for each site and one for all: energy, money and CO2 of a year, and their basis.

    ``low`` and ``high`` are the ends of an interval of 95 %; two more columns say which part of its
    half comes from seeds, and which from interpolation. Watts are modelled.
    """

    #: Source of the figures: ``"modelled"``, as in a report.
    source = "modelled"

    def __init__(
        self,
        rows: list[dict[str, Cell]],
        years: dict[str, SiteYear],
        rates: Rates,
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
class Rates:
    """The user's prices and emissions per unit of energy."""

    price_per_kwh: float | None
    grams_co2_per_kwh: float | None

    def columns(self, prefix: str, kwh: Mapping[str, float]) -> dict[str, Cell]:
        """Energy, money and CO2, for ends and middle."""
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
class SiteYear:
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
        """Error of interpolation."""
        watts = [self.overhead * watts for watts in self.curve.means()]
        return missed_by_lines(self.curve.rates_pps, watts, self.weights)

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


def missed_by_lines(rates: Sequence[float], watts: Sequence[float], hours: Weights) -> float:
    off = errors(rates, watts)
    return sum(error * time for error, time in zip(off, hours.between)) / 1e3


def interval(by_seed: Sequence[float], missed: float) -> dict[str, float]:
    mean = sum(by_seed) / len(by_seed)
    around = half_width(by_seed) + missed
    return {"low": mean - around, "mean": mean, "high": mean + around}


def year_row(name: str, years: list[SiteYear], rates: Rates) -> dict[str, Cell]:
    by_seed = [sum(parts) for parts in zip(*(it.kwh() for it in years))]
    missed = sum(it.missed_kwh() for it in years)
    kwh = interval(by_seed, missed)
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
