"""Power over load, from simulations at some rates and seeds, and what is uncertain about it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

#: Student's t: so many standard errors hold 95 % of all means, by degrees of freedom from 1.
_T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


def half_width(values: Sequence[float]) -> float:
    """Half of the 95 % confidence interval of the mean of independent values (two or more)."""
    count = len(values)
    mean = sum(values) / count
    variance = sum((value - mean) ** 2 for value in values) / (count - 1)
    # Beyond the table its last entry, which is the wider one.
    t = _T95[min(count - 1, len(_T95)) - 1]
    return float(t * (variance / count) ** 0.5)


def knots(top: float, step: float) -> list[float]:
    """Rates to simulate for all up to ``top``: 0, powers of ``step``, ``top``.

    Powers, since power bends most at low load; the same ones for every fleet, so that a what-if
    needs few new simulations.
    """
    power = step
    ladder = []
    while power < top:
        if power > top / 200:
            ladder.append(float(f"{power:.6g}"))
        power *= step
    # One that nearly is the top would make an interval of next to no width.
    return [0.0, *(rate for rate in ladder if rate * step**0.2 < top), top]


@dataclass(frozen=True)
class Curve:
    """Power, loss and latency of a router at each of some rates."""

    rates_pps: tuple[float, ...]
    #: Watts by seed, then by rate.
    watts: tuple[tuple[float, ...], ...]
    #: Watts of the network cards, part of the former.
    card_watts: tuple[tuple[float, ...], ...]
    #: Lost packets per second, mean over the seeds.
    lost_pps: tuple[float, ...]
    #: Highest 99th percentile of the latency of all seeds; None without packets.
    p99_seconds: tuple[float | None, ...]

    def with_cards(self, watts: float | None) -> Curve:
        """The same with other network cards, which draw so much together."""
        if watts is None:
            return self
        changed = tuple(
            tuple(all_ - cards + watts for all_, cards in zip(row, of_cards))
            for row, of_cards in zip(self.watts, self.card_watts)
        )
        unvarying = tuple(tuple(watts for _ in row) for row in self.card_watts)
        return Curve(self.rates_pps, changed, unvarying, self.lost_pps, self.p99_seconds)

    def means(self) -> list[float]:
        """Watts by rate, mean over the seeds."""
        return [sum(column) / len(self.watts) for column in zip(*self.watts)]


def errors(rates: Sequence[float], values: Sequence[float]) -> list[float]:
    """Error of a straight line between each two neighbours of the rates.

    Each inner value is held against the line through the two beside it, an interval at least twice
    as long; the larger of the errors at an interval's ends counts. It is an estimate, and a careful
    one: where the values bend evenly, a line over half of the length is off by a quarter.
    """
    off = [0.0] * len(rates)
    for at in range(1, len(rates) - 1):
        share = (rates[at] - rates[at - 1]) / (rates[at + 1] - rates[at - 1])
        line = values[at - 1] + share * (values[at + 1] - values[at - 1])
        off[at] = abs(values[at] - line)
    return [max(low, high) for low, high in zip(off, off[1:])]


@dataclass(frozen=True)
class Weights:
    """Hours of all routers together: at each rate of a curve, and between each two of them."""

    at: list[float]
    between: list[float]

    def total(self, values: Sequence[float]) -> float:
        """Sum over all hours of values that are linear between the rates."""
        return sum(hours * value for hours, value in zip(self.at, values))


def weights(
    rates: Sequence[float], shape: Sequence[float], means: dict[float, int], hours: float
) -> Weights:
    """Time that routers spend at the rates of a curve.

    ``shape`` are the rates of a day over their mean, ``means`` how many routers there are of each
    mean rate. A rate between two of the curve counts for both, as linear interpolation has it.
    Samples are sorted and summed once, so that a router costs a search for each rate of the curve,
    however long its day is: exact, and fast enough for tens of thousands.
    """
    ordered = sorted(shape)
    sums = [0.0, *accumulate(ordered)]
    at = [0.0] * len(rates)
    between = [0.0] * (len(rates) - 1)
    for mean, count in means.items():
        share = count * hours / len(ordered)
        begin = 0
        for cell in range(len(between)):
            low, high = rates[cell], rates[cell + 1]
            end = bisect_right(ordered, high / mean) if cell + 1 < len(between) else len(ordered)
            if end > begin:
                inside = (end - begin) * share
                over = (mean * (sums[end] - sums[begin]) - (end - begin) * low) / (high - low)
                at[cell + 1] += over * share
                at[cell] += inside - over * share
                between[cell] += inside
                begin = end
    return Weights(at, between)
