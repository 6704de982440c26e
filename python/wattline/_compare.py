"""Comparison of two years of a fleet."""

from __future__ import annotations

from dataclasses import dataclass

from . import _wattline
from ._curve import half_width
from ._table import Cell, Table
from ._year import Rates, SiteYear, Year, interval, missed_by_lines


def compare(before: Year, after: Year) -> Table:
    """Savings of ``after`` over ``before``: a row for each site that both have, and one for all.

    The comparison is paired: seed by seed the same packets arrive, and what both have in common
    cancels. Where a site has the same hours at the same rates in both, interpolation is judged by
    the difference of the two curves. Below 0 it costs more.
    """
    if before._rates != after._rates:
        raise _wattline.Error("the years differ in price or CO2 per kWh: give both the same")
    if before._seeds != after._seeds:
        raise _wattline.Error("the years were simulated with different seeds: give both the same")
    both = [name for name in before._years if name in after._years]
    pairs = {name: Pair([before._years[name]], [after._years[name]]) for name in both}
    others = [
        sum(it.missed_kwh() for name, it in year._years.items() if name not in both)
        for year in (before, after)
    ]
    total = Pair(list(before._years.values()), list(after._years.values()))
    missed = sum(pair.missed_kwh() for pair in pairs.values()) + sum(others)
    rows = [pair.row(name, pair.missed_kwh(), before._rates) for name, pair in pairs.items()]
    rows.append(total.row("total", missed, before._rates))
    return Table({name: [row.get(name) for row in rows] for name in rows[0]})


@dataclass(frozen=True)
class Pair:
    """The same sites in two years."""

    before: list[SiteYear]
    after: list[SiteYear]

    def missed_kwh(self) -> float:
        """For one site: the error of the difference by interpolation."""
        old, new = self.before[0], self.after[0]
        together = old.missed_kwh() + new.missed_kwh()
        if (old.weights, old.curve.rates_pps) != (new.weights, new.curve.rates_pps):
            return together
        watts = [
            old.overhead * one - new.overhead * other
            for one, other in zip(old.curve.means(), new.curve.means())
        ]
        return min(together, missed_by_lines(old.curve.rates_pps, watts, old.weights))

    def row(self, name: str, missed: float, rates: Rates) -> dict[str, Cell]:
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
            **rates.columns("saved_", interval(saved, missed)),
            "saved_energy_kwh_by_seeds": half_width(saved),
            "saved_energy_kwh_by_interpolation": missed,
        }
