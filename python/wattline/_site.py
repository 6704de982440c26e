"""Parts of a fleet: days of traffic, and sites of equal routers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real

from . import _wattline


def within(name: str, value: object, least: float, most: float = math.inf) -> float:
    """A number that the user gave: not a text that looks like one, and within its limits.

    >>> within("price_per_kwh", 0.25, 0)
    0.25
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise _wattline.Error(f"{name}={value!r}: it must be a number")
    number = float(value)
    if not least <= number <= most or math.isinf(number):
        allowed = f"{least:g} and more" if most == math.inf else f"{least:g} to {most:g}"
        raise _wattline.Error(f"{name}={value}: allowed are {allowed}")
    return number


@dataclass(frozen=True)
class Day:
    """Rate of a router over whole days; each sample holds for the same time.

    Only the shape counts: :class:`Site` scales it to the mean rate of each router. Samples may
    cover several days, such as a week by hours: a year is so many repetitions.

    >>> Day((1, 3), source="two halves of a day").shape
    (0.5, 1.5)
    """

    samples: tuple[float, ...]
    #: Their source; shown with the results.
    source: str

    def __post_init__(self) -> None:
        samples = tuple(within("a day's sample", rate, 0) for rate in self.samples)
        object.__setattr__(self, "samples", samples)
        if not samples:
            raise _wattline.Error("a day needs samples: there are none")
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
        if isinstance(self.routers, bool) or not isinstance(self.routers, Integral) or self.routers < 1:
            raise self._wrong(f"routers={self.routers!r}: allowed are whole numbers from 1 on")
        if "{rate}" not in self.traffic:
            raise self._wrong(f"traffic={self.traffic!r}: it must have {{rate}} where the rate belongs")
        if self.cards_watts is not None:
            self._within("cards_watts", self.cards_watts)
        if isinstance(self.rate, Iterable) and not isinstance(self.rate, str):
            rates = tuple(self._above_zero(rate) for rate in self.rate)
            object.__setattr__(self, "rate", rates)
            if len(self.rates_pps()) != self.routers:
                raise self._wrong(f"{len(self.rates_pps())} rates for {self.routers} routers")
        for rate in self.rates_pps():
            self._above_zero(rate)

    def _above_zero(self, rate: object) -> float:
        if isinstance(rate, (int, float)) and not rate > 0:
            raise self._wrong(f"rate={rate}: allowed is what is above 0")
        return self._within("rate", rate)

    def _within(self, name: str, value: object) -> float:
        """A number from 0 on."""
        try:
            return within(name, value, 0)
        except _wattline.Error as error:
            raise self._wrong(str(error)) from None

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
        return (self._above_zero(self.rate),)

    def means(self) -> dict[float, int]:
        """Number of routers of each mean rate."""
        rates = self.rates_pps()
        return {rates[0]: self.routers} if len(rates) == 1 else dict(Counter(rates))
