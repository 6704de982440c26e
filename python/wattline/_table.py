"""Tables that pandas, pyarrow, polars and DuckDB read, without needing any of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Union

from . import _wattline

if TYPE_CHECKING:
    import pandas
    import pyarrow
    from matplotlib.axes import Axes

#: Content of a cell.
Cell = Union[str, bool, int, float, None]


#: Rows printed at most. Up to ``_ACROSS`` lines that are wider than ``_WIDTH`` become columns.
_SHOWN = 20
_ACROSS = 6
_WIDTH = 80


def _text(cell: Cell) -> str:
    """A cell for people."""
    if cell is None:
        return "-"
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


def _row(report: Mapping[str, Any]) -> dict[str, Cell]:
    """The cells of a report.

    >>> _row({"power_watts": 9.0, "power_by_component_watts": {"fans": 2.0},
    ...       "latency_curve": [[0.25, 1e-6], [0.999, 9e-6]], "notes": []})
    {'power_watts': 9.0, 'power_fans_watts': 2.0, 'latency_p25_seconds': 1e-06, 'latency_p999_seconds': 9e-06}
    >>> _row({"residency": {"idle_states": ["C1"], "cores": [
    ...     {"useful": 0.5, "empty": 0.25, "idle": [0.25]}, {"useful": 0.0, "empty": 0.0, "idle": [1.0]}]}})
    {'cores_useful_share': 0.25, 'cores_empty_share': 0.125, 'cores_C1_share': 0.625}
    """
    row: dict[str, Cell] = {
        key: value for key, value in report.items() if not isinstance(value, (dict, list))
    }
    for component, watts in report.get("power_by_component_watts", {}).items():
        row[f"power_{component}_watts"] = watts
    residency = report.get("residency", {})
    if cores := residency.get("cores"):
        shares = [[core["useful"], core["empty"], *core["idle"]] for core in cores]
        for state, each in zip(["useful", "empty", *residency["idle_states"]], zip(*shares)):
            row[f"cores_{state}_share"] = sum(each) / len(each)
    for share, seconds in report.get("latency_curve", []):
        # Named like other percentiles: p50, p999; the last one is the longest latency.
        if share < 1:
            row.setdefault(f"latency_p{100 * share:g}_seconds".replace(".", ""), seconds)
    return row


class Table:
    """Columns of equal length.

    >>> table = Table({"policy": ["poll", "napi"], "power_watts": [133.0, 121.5]})
    >>> table["policy"], len(table)
    (['poll', 'napi'], 2)
    >>> next(table.rows())
    {'policy': 'poll', 'power_watts': 133.0}

    Any library that knows the Arrow PyCapsule interface takes it as it is, such as
    ``pyarrow.table(table)`` and ``polars.DataFrame(table)``.
    """

    def __init__(self, columns: Mapping[str, Sequence[Cell]]) -> None:
        self._columns = {name: list(values) for name, values in columns.items()}
        lengths = {len(values) for values in self._columns.values()}
        if len(lengths) > 1:
            raise ValueError(f"columns differ in length: {sorted(lengths)}")

    @classmethod
    def of_reports(cls, reports: Iterable[Mapping[str, Any]]) -> Table:
        """A row for each report, of everything in it that is a number or a text.

        Watts by component, times of the cores in each state and the distribution of the latency
        are columns of their own.
        """
        rows = [_row(report) for report in reports]
        names: dict[str, None] = {}
        for row in rows:
            names.update(dict.fromkeys(row))
        return cls({name: [row.get(name) for row in rows] for name in names})

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self._columns)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), []))

    def __getitem__(self, name: str) -> list[Cell]:
        try:
            return self._columns[name]
        except KeyError:
            raise KeyError(f"no column {name!r}; there are {', '.join(self._columns)}") from None

    def rows(self) -> Iterator[dict[str, Cell]]:
        """The rows, one dictionary each."""
        for values in zip(*self._columns.values()):
            yield dict(zip(self._columns, values))

    def to_dict(self) -> dict[str, list[Cell]]:
        """The columns as lists."""
        return {name: list(values) for name, values in self._columns.items()}

    def to_pandas(self) -> pandas.DataFrame:
        """As a DataFrame; needs pandas."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_pandas() needs pandas: pip install pandas") from error

        return pandas.DataFrame(self._columns)

    def to_arrow(self) -> pyarrow.Table:
        """As an Arrow table; needs pyarrow."""
        try:
            import pyarrow
        except ImportError as error:
            raise ImportError("to_arrow() needs pyarrow: pip install pyarrow") from error

        return pyarrow.table(self)

    def plot(
        self,
        x: str = "offered_rate_pps",
        y: str = "power_watts",
        by: str | None = "policy",
        *,
        ax: Axes | None = None,
    ) -> Axes:
        """Column ``y`` over column ``x``, a line for each value of ``by``.

        The defaults are those for a sweep over rates. Runs of one traffic that differ in their seed
        make one point, with a band from the least to the most. Runs of one line that differ in anything
        else, such as the server or the kind of traffic, are refused: filter them, or name it in ``by``. Where ``x`` is a text, each row
        becomes a bar, with its interval where the table has ``_low`` and ``_high``. Axes have their
        units, and begin at 0 where nothing is below. Needs matplotlib
        (``pip install matplotlib``).
        """
        from ._plot import plot_bars, plot_table

        if any(isinstance(value, str) for value in self[x]):
            return plot_bars(self, x, y, ax)
        return plot_table(self, x, y, by, ax)

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Writes a Parquet file; needs pyarrow."""
        try:
            import pyarrow.parquet
        except ImportError as error:
            raise ImportError("to_parquet() needs pyarrow: pip install pyarrow") from error

        pyarrow.parquet.write_table(self.to_arrow(), os.fspath(path))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return _wattline.arrow_stream(list(self._columns.items()))

    def __str__(self) -> str:
        """The table as text: a line for each row, or for each column where they would be long."""
        shown = list(islice(self.rows(), _SHOWN))
        lines = [list(self._columns), *([_text(cell) for cell in row.values()] for row in shown)]
        widths = [max(map(len, cells)) for cells in zip(*lines)]
        if len(lines) <= _ACROSS and sum(widths) + 2 * len(widths) > _WIDTH:
            lines = [list(line) for line in zip(*lines)]
            widths = [max(map(len, cells)) for cells in zip(*lines)]
        text = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
        left = len(self) - len(shown)
        return "\n".join([*text, *([f"and {left} more rows"] if left else [])])

    def __repr__(self) -> str:
        return f"Table({len(self)} rows: {', '.join(self._columns)})"
