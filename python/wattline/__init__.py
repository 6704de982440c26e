"""Servers whose power follows their traffic: simulate policies, models and traffic.

>>> import wattline as wl
>>> report = wl.simulate(policy="queue-length", traffic="poisson:1Mpps,size=64", duration="20ms")
>>> report.power_watts < wl.simulate(policy="poll", traffic="poisson:1Mpps,size=64",
...                                  duration="20ms").power_watts
True

Every power figure of a simulation is modelled, not measured: ``report.source`` and
``report.accuracy`` say how it was come by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._models import Parameter, PolicyInfo, figures, policies, servers
from ._policy import Policy
from ._report import Report
from ._simulate import simulate, sweep
from ._table import Table
from ._wattline import (
    Core,
    Error,
    Latency,
    Machine,
    PolicyError,
    Queue,
    Server,
    Setting,
    Traffic,
    View,
    __version__,
)

if TYPE_CHECKING:
    from ._command import (
        characterise,
        envelope,
        fit,
        league,
        optimise,
        receive,
        reproduce,
        requests,
    )
    from .fleet import Day, Fleet, Site, Year, compare

__all__ = [
    "Core",
    "Day",
    "Error",
    "Fleet",
    "Latency",
    "Machine",
    "Parameter",
    "Policy",
    "PolicyError",
    "PolicyInfo",
    "Queue",
    "Report",
    "Server",
    "Setting",
    "Site",
    "Table",
    "Traffic",
    "View",
    "Year",
    "__version__",
    "characterise",
    "compare",
    "envelope",
    "figures",
    "fit",
    "league",
    "optimise",
    "policies",
    "receive",
    "reproduce",
    "requests",
    "servers",
    "simulate",
    "sweep",
]

#: Loaded when they are asked for first, so that a simulation need not wait for them.
_LATER = {
    "Day": "fleet",
    "Fleet": "fleet",
    "Site": "fleet",
    "Year": "fleet",
    "compare": "fleet",
    "characterise": "_command",
    "envelope": "_command",
    "fit": "_command",
    "league": "_command",
    "optimise": "_command",
    "receive": "_command",
    "reproduce": "_command",
    "requests": "_command",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'wattline' has no attribute {name!r}")
    import importlib

    thing = getattr(importlib.import_module(f"wattline.{_LATER[name]}"), name)
    globals()[name] = thing
    return thing


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
