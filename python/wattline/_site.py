"""What a fleet consists of: days of traffic, and sites of routers that are alike."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from . import _wattline


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
