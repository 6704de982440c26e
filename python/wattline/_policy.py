"""Policies written in Python."""

from __future__ import annotations

from ._wattline import Error, Setting, View


class Policy:
    """A governor: from observations to settings of the machine.

    Write a class with a method ``decide`` and give it, or an object of it, to
    :func:`wattline.simulate` or :func:`wattline.sweep`. It is asked once at the start of the run
    and then every ``every_seconds``:

    >>> import wattline as wl
    >>> class Proportional(wl.Policy):
    ...     every_seconds = 0.001
    ...     def decide(self, view):
    ...         wanted = 1 + int(view.load * len(view.active_cores) / 0.7)
    ...         return wl.Setting(cores=min(wanted, view.machine.cores), idle_state="C6")
    >>> report = wl.simulate(policy=Proportional, traffic="poisson:1Mpps,size=64", duration="20ms")
    >>> report.cores_active_mean < 12
    True

    What ``decide`` raises ends the run and reaches the caller with its traceback. So does a
    :class:`wattline.PolicyError`, with file and line, where it returns what the machine cannot do, or
    does not return within ``returns_within_seconds``: then it is interrupted where it is in Python (what
    waits in other code, such as ``time.sleep``, is interrupted when that returns).
    A class does not have to inherit from this one.
    """

    #: Name in reports; without one that of the class with its parameters, such as ``Fixed(cores=2)``.
    name: str | None = None
    #: Simulated time between two decisions.
    every_seconds: float = 1e-3
    #: Fill of a queue, in packets, at which it is asked before that time.
    at_fill: int | None = None
    #: True if ``view.latency`` is measured.
    looks_at_latency: bool = False
    #: Latency beyond which ``view.latency.late`` counts a packet; implies the former.
    late_after_seconds: float | None = None
    #: True if ``view.power_watts`` is computed.
    looks_at_power: bool = False
    #: Timeout of a decision, in wall-clock time; ``None`` for none, as a debugger needs.
    returns_within_seconds: float | None = 60.0

    def decide(self, view: View) -> Setting | None:
        """Setting from now on; with ``None``, and for figures that it leaves out, nothing changes."""
        raise NotImplementedError(f"{type(self).__name__} has no method decide")


def name_of(policy: object) -> str:
    """The policy's name in reports.

    >>> class Fixed:
    ...     def __init__(self, cores, idle="C6"):
    ...         self.cores, self.idle = cores, idle
    >>> name_of(Fixed(2))
    "Fixed(cores=2, idle='C6')"
    >>> name_of(Policy())
    'Policy'
    """
    import inspect

    name = getattr(policy, "name", None)
    if name is not None:
        return str(name)
    kind = policy if isinstance(policy, type) else type(policy)
    held = {} if isinstance(policy, type) else getattr(policy, "__dict__", {})
    try:
        parameters = list(inspect.signature(kind).parameters)
    except (TypeError, ValueError):
        parameters = []
    # Parameters that are kept under other names are among all that the object holds.
    known = [it for it in parameters if it in held]
    shown = known if len(known) == len(parameters) else [it for it in held if it[:1] != "_"]
    values = [f"{it}={held[it]!r}" for it in shown if isinstance(held[it], (bool, int, float, str))]
    return f"{kind.__name__}({', '.join(values)})" if values else kind.__name__


#: Attributes that define when a policy is asked, and what it observes.
_READ = ("every_seconds", "at_fill", "looks_at_latency", "late_after_seconds", "looks_at_power",
         "returns_within_seconds")
#: From this likeness on, a name is taken for a misspelt one: a letter or two.
_ALIKE = 0.9


def check_names(policy: object) -> None:
    """Refuses an attribute whose name is nearly that of one that is read."""
    from difflib import get_close_matches

    for name in dir(policy):
        if name.startswith("_") or name in _READ:
            continue
        for meant in get_close_matches(name, _READ, n=1, cutoff=_ALIKE):
            raise Error(
                f"policy {type(policy).__name__}: nothing reads the attribute {name}; "
                f"did you mean {meant}? If not, give it a name that is less like it"
            )
