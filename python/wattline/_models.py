"""Lists of server models and policies."""

from __future__ import annotations

import json
from dataclasses import dataclass

from . import _wattline
from ._table import Table


@dataclass(frozen=True)
class Parameter:
    """A parameter of a policy, set as in ``"queue-length:q_h=32"``."""

    name: str
    default: str
    meaning: str
    source: str


@dataclass(frozen=True)
class PolicyInfo:
    """A policy that the simulator has built in."""

    name: str
    summary: str
    source: str
    parameters: tuple[Parameter, ...]


def policies() -> list[PolicyInfo]:
    """The built-in policies.

    >>> [policy.name for policy in policies()][:2]
    ['poll', 'napi']
    """
    found = []
    for info in json.loads(_wattline.policies()):
        parameters = tuple(
            Parameter(it["name"], it["default"], it["meaning"], it["source"])
            for it in info["parameters"]
        )
        found.append(PolicyInfo(info["name"], info["summary"], info["source"], parameters))
    return found


def servers() -> Table:
    """The shipped server models; ``complete`` ones can be simulated.

    >>> "westmere-2010" in servers()["name"]
    True
    """
    models = [_wattline.Server(name) for name in _wattline.servers()]
    return Table(
        {
            "name": [model.name for model in models],
            "description": [model.description for model in models],
            "source": [model.source for model in models],
            "complete": ["yes" if model.complete else "no" for model in models],
        }
    )


def figures(server: str | _wattline.Server) -> Table:
    """The figures of a server model, each with its origin; a missing one has no value.

    >>> "westmere" in _wattline.Server("westmere-2010").name
    True
    >>> set(figures("westmere-2010").columns) == {"field", "value", "origin", "note"}
    True
    """
    model = _wattline.Server(server) if isinstance(server, str) else server
    listed = json.loads(model.figures_json())
    return Table(
        {
            "field": [it["field"] for it in listed],
            "value": [_text(it.get("value")) for it in listed],
            "origin": [str(it.get("origin")) for it in listed],
            "note": [it.get("note") for it in listed],
        }
    )


def _text(value: object) -> str | None:
    """A figure as text: models have numbers and lists of them."""
    if isinstance(value, dict):
        if "missing" in value:
            return None
        value = next(iter(value.values()), None)
    return None if value is None else json.dumps(value)
