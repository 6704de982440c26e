"""The result of a simulation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ._table import Table
from ._wattline import Error

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Report(Mapping[str, Any]):
    """The result of a simulation: the document of ``wattline sim --json``.

    Its keys are attributes, too; units are in their names. What a run does not have, such as the
    latency of no packet, is ``None``.
    """

    # The keys that most people look at; ``keys()`` has all.
    server: str
    policy: str
    traffic: str
    application: str
    seed: int
    source: str
    accuracy: str
    duration_seconds: float
    offered_packets: int
    forwarded_packets: int
    dropped_packets: int
    reordered_packets: int
    offered_rate_pps: float
    forwarded_rate_pps: float
    latency_min_seconds: float | None
    latency_mean_seconds: float | None
    latency_p50_seconds: float | None
    latency_p95_seconds: float | None
    latency_p99_seconds: float | None
    latency_p999_seconds: float | None
    latency_max_seconds: float | None
    power_watts: float
    energy_joules: float
    power_by_component_watts: dict[str, float]
    energy_per_packet_joules: float | None
    cores_active_mean: float
    frequency_mean_hertz: float
    transitions: int
    decisions: int
    residency: dict[str, Any]
    wall_seconds: float

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = dict(document)

    @classmethod
    def from_json(cls, text: str) -> Report:
        """Report from the output of ``wattline sim --json``."""
        return cls(json.loads(text))

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            try:
                return self._document[name]
            except KeyError:
                pass
        raise AttributeError(f"a report has no {name!r}; its keys are {', '.join(self._document)}")

    def __getitem__(self, key: str) -> Any:
        return self._document[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._document)

    def __len__(self) -> int:
        return len(self._document)

    def __getstate__(self) -> dict[str, Any]:
        return self._document

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._document = state

    @property
    def intervals(self) -> Table:
        """A row for each interval, for a run with ``interval``."""
        intervals = self._document.get("intervals")
        if not intervals:
            raise Error("a table over time needs intervals: simulate(..., interval='10ms')")
        return Table.of_reports(intervals)

    def plot(self) -> Figure:
        """Power by component, rates and latency over time, for a run with ``interval``.

        Needs matplotlib (``pip install matplotlib``); a notebook shows the figure.
        """
        from ._plot import plot_report

        return plot_report(self)

    def to_dict(self) -> dict[str, Any]:
        """The whole document."""
        return dict(self._document)

    def to_json(self) -> str:
        """The whole document as text."""
        return json.dumps(self._document, indent=2)

    def __repr__(self) -> str:
        return (
            f"Report({self.policy!r} on {self.server!r} with {self.traffic!r}: "
            f"{self.power_watts:.2f} W, {self.dropped_packets} packets dropped)"
        )
