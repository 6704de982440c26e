"""Plots of reports and tables with matplotlib, which is optional."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ._wattline import Error

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ._table import Table

#: By the end of a column's name: what the axis shows, its unit, and the unit's size in the
#: column's. Longer ends first.
_UNITS = (
    ("_bits_per_second", "Gbit/s", 1e9),
    ("_packets_per_second", "Mpps", 1e6),
    ("_joules", "J", 1.0),
    ("_watts", "W", 1.0),
    ("_pps", "Mpps", 1e6),
    ("_hertz", "GHz", 1e9),
    ("_kwh", "MWh", 1e3),
    ("_kg", "t", 1e3),
    ("_share", "%", 0.01),
    ("_seconds", "s", 1.0),
)
#: Times that are short: the latency of a packet, a wake-up.
_SHORT = ("latency", "reaction", "hold")
#: Characters that fit below bars.
_WIDE = 60
_ENDS = ("_low", "_mean", "_high")


def axis_of(column: str) -> tuple[str, float]:
    """The label of an axis that shows a column, and what its values are divided by.

    >>> axis_of("latency_p99_seconds")
    ('latency p99 (µs)', 1e-06)
    >>> axis_of("energy_kwh_mean")
    ('energy (MWh)', 1000.0)
    """
    name = column
    for end in _ENDS:
        name = name.removesuffix(end)
    for end, unit, size in _UNITS:
        if name.endswith(end):
            if unit == "s" and name.startswith(_SHORT):
                unit, size = "µs", 1e-6
            return f"{name.removesuffix(end).replace('_', ' ')} ({unit})", size
    return column.replace("_", " "), 1.0


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    plt = _pyplot()
    made: Axes = plt.subplots(figsize=(7, 4), layout="constrained")[1]
    return made


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("plots need matplotlib: pip install matplotlib") from None
    return plt


def _numbers(table: Table, column: str) -> list[float | None]:
    values = table[column]
    for value in values:
        if isinstance(value, str):
            raise Error(f"column {column!r} has texts such as {value!r}: a plot needs numbers")
    return [None if isinstance(value, str) else value for value in values]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def plot_table(table: Table, x: str, y: str, by: str | None, ax: Axes | None) -> Axes:
    """One column over another, a line for each value of a third."""
    for column in (x, y, *([by] if by else [])):
        table[column]
    across, up = _numbers(table, x), _numbers(table, y)
    (x_label, x_size), (y_label, y_size) = axis_of(x), axis_of(y)
    lines: dict[Any, dict[Any, list[tuple[float, float]]]] = {}
    # Runs that differ in nothing but the seed make one point, although their rates differ a little.
    points = table["traffic"] if "traffic" in table.columns else across
    for at, (one, other) in enumerate(zip(across, up)):
        if one is not None and other is not None:
            line = lines.setdefault(table[by][at] if by else None, {})
            line.setdefault(points[at], []).append((one / x_size, other / y_size))
    _check_lines(table, x, by)
    axes = _axes(ax)
    for name, runs in lines.items():
        row = sorted(
            (_mean([a for a, _ in run]), _mean([b for _, b in run]), [b for _, b in run])
            for run in runs.values()
        )
        places = [it[0] for it in row]
        (line_2d,) = axes.plot(
            places, [it[1] for it in row], marker="o", markersize=3, label=str(name)
        )
        if any(len(it[2]) > 1 for it in row):
            axes.fill_between(
                places,
                [min(it[2]) for it in row],
                [max(it[2]) for it in row],
                color=line_2d.get_color(),
                alpha=0.2,
                linewidth=0,
            )
    axes.set_xlabel(x_label)
    axes.set_ylabel(_sourced(table, y_label))
    _from_zero(axes, [it[1] for runs in lines.values() for run in runs.values() for it in run])
    if by:
        axes.legend(title=by.replace("_", " "), frameon=False)
    return axes


def _kind(traffic: object) -> str:
    """A description of traffic without its rate.

    >>> _kind("poisson:5Mpps,size=64") == _kind("poisson:1Mpps,size=64")
    True
    >>> _kind("poisson:5Mpps,size=64") == _kind("mmpp:5Mpps,size=64")
    False
    """
    kind, _, rest = str(traffic).partition(":")
    return f"{kind}:{rest.partition(',')[2]}"


def _check_lines(table: Table, x: str, by: str | None) -> None:
    """Refuses lines of runs that differ in more than rate and seed: their mean would mean nothing."""
    for column in table.columns:
        values = table[column]
        if column in (x, by) or not any(isinstance(it, (str, bool)) for it in values):
            continue
        seen: dict[Any, Any] = {}
        for at, value in enumerate(values):
            same = _kind(value) if column == "traffic" else value
            line = table[by][at] if by else None
            if seen.setdefault(line, same) != same:
                raise Error(
                    f"runs of one line differ in {column} ({seen[line]!r}, {same!r}): plot(by={column!r}), "
                    f"or a table of one {column}"
                )


def _sourced(table: Table, label: str) -> str:
    """Says of watts where they come from, as the rows do."""
    sources = set(table["source"]) if "source" in table.columns else set()
    if label != "power (W)" or len(sources) != 1:
        return label
    return f"power, {sources.pop()} (W)"


def _from_zero(axes: Axes, values: Sequence[float]) -> None:
    """Begins the axis at 0, so that a half looks like a half; what may be negative has it inside."""
    if values and min(values) >= 0:
        axes.set_ylim(bottom=0)
    else:
        axes.axhline(0, color="0.5", linewidth=0.8)


def plot_bars(table: Table, x: str, y: str, ax: Axes | None) -> Axes:
    """A bar for each row, with its interval where the table has one (``_low``, ``_high``)."""
    stem = y.removesuffix("_mean")
    heights = _numbers(table, y)
    label, size = axis_of(y)
    ends: list[list[float]] | None = None
    if f"{stem}_low" in table.columns and f"{stem}_high" in table.columns:
        low, high = _numbers(table, f"{stem}_low"), _numbers(table, f"{stem}_high")
        ends = [
            [((h or 0) - (l or 0)) / size for h, l in zip(heights, low)],
            [((u or 0) - (h or 0)) / size for h, u in zip(heights, high)],
        ]
    axes = _axes(ax)
    shown = [(height or 0) / size for height in heights]
    names = [str(it) for it in table[x]]
    axes.bar(names, shown, yerr=ends, capsize=4)
    if sum(map(len, names)) > _WIDE:
        # Side by side, long names would overlap.
        for text in axes.get_xticklabels():
            text.set(rotation=30, ha="right", rotation_mode="anchor")
    axes.set_ylabel(_sourced(table, label))
    _from_zero(axes, shown)
    return axes


def plot_report(report: Any) -> Figure:
    """Power by component, rates and latency over the time of a run with intervals."""
    intervals = report.get("intervals") or []
    if not intervals:
        raise Error("a plot over time needs intervals: simulate(..., interval='10ms')")
    plt = _pyplot()
    figure, (power, rate, latency) = plt.subplots(
        3, 1, sharex=True, figsize=(8, 7), layout="constrained"
    )
    begin = [1e3 * it["from_seconds"] for it in intervals]
    end = begin[-1] + 1e3 * intervals[-1]["duration_seconds"]

    def steps(values: Sequence[float | None]) -> tuple[list[float], list[float]]:
        known = [float("nan") if value is None else value for value in values]
        return [*begin, end], [*known, known[-1]]

    base = [0.0] * len(intervals)
    for name in intervals[0]["power_by_component_watts"]:
        watts = [it["power_by_component_watts"][name] for it in intervals]
        if any(watts):
            top = [below + own for below, own in zip(base, watts)]
            times, low = steps(base)
            label = name.replace("_", " ")
            power.fill_between(times, low, steps(top)[1], step="post", label=label, linewidth=0)
            base = top
    power.set_ylabel(f"power, {report['source']} (W)")
    # Beside the stack, in its order: power begins at 0 and leaves no room inside.
    handles, labels = power.get_legend_handles_labels()
    power.legend(
        handles[::-1], labels[::-1], frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5)
    )
    for name, dashes in (("offered", "-"), ("forwarded", "--")):
        rates = [it[f"{name}_rate_pps"] / 1e6 for it in intervals]
        rate.step(*steps(rates), where="post", label=name, linestyle=dashes)
    rate.set_ylabel("rate (Mpps)")
    rate.legend(frameon=False)
    for name in ("mean", "p99"):
        values = [it.get(f"latency_{name}_seconds") for it in intervals]
        latency.step(
            *steps([None if it is None else 1e6 * it for it in values]), where="post", label=name
        )
    latency.set_ylabel("latency (µs)")
    latency.legend(frameon=False)
    latency.set_xlabel("simulated time (ms)")
    for axes in (power, rate, latency):
        axes.set_ylim(bottom=0)
    figure.suptitle(f"{report['policy']} on {report['server']}, {report['traffic']}", fontsize=10)
    made: Figure = figure
    return made
