"""Servers whose power follows their traffic: simulate policies, models and traffic.

>>> import wattline as wl
>>> report = wl.simulate(policy="powersave", traffic="poisson:1Mpps,size=64", duration="20ms")
>>> report.power_watts < wl.simulate(policy="poll", traffic="poisson:1Mpps,size=64",
...                                  duration="20ms").power_watts
True

Every power figure of a simulation is modelled, not measured: ``report.source`` and
``report.accuracy`` say how it was come by.
"""

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
    "compare",
    "figures",
    "policies",
    "servers",
    "simulate",
    "sweep",
]
