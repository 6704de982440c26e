"""Tables in other programs, and the lists of models and policies."""

import copy
import json
import pickle
import sys

import pytest
import wattline as wl

TABLE = wl.Table({"name": ["a", None], "count": [1, 2], "watts": [0.5, None], "none": [None, None]})


def test_arrow_reads_them_without_an_arrow_library_of_ours():
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table(TABLE)
    assert table.to_pydict() == TABLE.to_dict()
    assert [str(field.type) for field in table.schema] == ["string", "int64", "double", "double"]
    assert TABLE.to_arrow() == table


def test_pandas_reads_them():
    pandas = pytest.importorskip("pandas")
    frame = TABLE.to_pandas()
    assert list(frame.columns) == TABLE.columns and frame["count"].sum() == 3
    assert isinstance(frame, pandas.DataFrame)


def test_sweeps_and_intervals_are_tables():
    pyarrow = pytest.importorskip("pyarrow")
    swept = wl.sweep(traffics="poisson:1Mpps", seeds=range(3), duration="2ms")
    arrow = pyarrow.table(swept)
    assert arrow.num_rows == 3 and arrow["energy_joules"].to_pylist() == swept["energy_joules"]


def test_watts_states_and_latencies_are_columns():
    swept = wl.sweep(traffics="poisson:1Mpps", policies=["poll", "queue-length"], duration="2ms")
    row = next(swept.rows())
    parts = [row[name] for name in row if name.startswith("power_") and name != "power_watts"]
    assert len(parts) == 7 and sum(parts) == pytest.approx(row["power_watts"])
    shares = {name: row[name] for name in row if name.startswith("cores_") and name.endswith("_share")}
    assert sum(shares.values()) == pytest.approx(1) and shares["cores_useful_share"] > 0
    curve = [row[f"latency_p{it}_seconds"] for it in (1, 5, 10, 25, 50, 75, 90, 95, 99, 999, 9999)]
    # The distribution has three digits; the longest latency is exact.
    assert curve == sorted(curve) and curve[-1] <= 1.001 * row["latency_max_seconds"]
    assert swept["cores_empty_share"][0] > swept["cores_empty_share"][1], "poll never sleeps"


def test_wrong_columns_are_refused():
    with pytest.raises(ValueError, match="differ in length"):
        wl.Table({"a": [1], "b": []})
    with pytest.raises(wl.Error, match="column a"):
        wl.Table({"a": [object()]}).__arrow_c_stream__()  # type: ignore[list-item]
    with pytest.raises(wl.Error, match="column a: mixed"):
        wl.Table({"a": [1, "x"]}).__arrow_c_stream__()
    with pytest.raises(KeyError, match="no column 'z'"):
        TABLE["z"]
    assert len(wl.Table({})) == 0 and list(wl.Table({}).rows()) == []


def test_reports_are_mappings_that_can_be_kept():
    report = wl.simulate(traffic="poisson:1Mpps", duration="2ms", interval="1ms")
    for again in (copy.deepcopy(report), pickle.loads(pickle.dumps(report))):
        assert again.to_dict() == report.to_dict()
    assert wl.Report.from_json(report.to_json()).energy_joules == report["energy_joules"]
    assert json.loads(report.to_json())["power_watts"] == report.power_watts
    assert (report.source, report.accuracy) == (report["source"], report["accuracy"])
    with pytest.raises(AttributeError, match="no 'power'"):
        report.power


def test_policies_and_servers_are_listed():
    names = [policy.name for policy in wl.policies()]
    assert {"poll", "queue-length", "wattline"} <= set(names)
    queue_length = next(policy for policy in wl.policies() if policy.name == "queue-length")
    assert queue_length.parameters and all(it.source for it in queue_length.parameters)
    servers = wl.servers()
    complete = [name for name, it in zip(servers["name"], servers["complete"]) if it == "yes"]
    assert "westmere-2010" in complete
    figures = wl.figures("westmere-2010")
    assert len(figures) > 20 and None not in figures["origin"]


@pytest.mark.parametrize("library", ["pandas", "pyarrow"])
def test_a_missing_library_is_named_with_the_remedy(library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    convert = {"pandas": wl.Table.to_pandas, "pyarrow": wl.Table.to_arrow}[library]
    with pytest.raises(ImportError, match=f"pip install {library}"):
        convert(wl.Table({"a": [1]}))


def test_a_table_prints_as_text_without_pandas():
    assert str(TABLE).splitlines() == [
        "name  count  watts  none",
        "a     1      0.5    -",
        "-     2      -      -",
    ]
    wide = wl.Table({name: [1.0 / 3.0] for name in "abcdefghijklmn"})
    assert str(wide).splitlines()[:2] == ["a  0.333333", "b  0.333333"]
    long = str(wl.Table({"n": list(range(30))})).splitlines()
    assert len(long) == 22 and long[-1] == "and 10 more rows"
    assert repr(TABLE) == "Table(2 rows: name, count, watts, none)"


def test_truth_values_have_one_type_everywhere(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    pandas = pytest.importorskip("pandas")
    table = wl.Table({"output_links": [True, False, None], "cores": [1, 2, 3]})
    assert arrow.table(table).schema.field("output_links").type == arrow.bool_()
    whole = wl.Table({"output_links": [True, False]})
    assert whole.to_pandas()["output_links"].dtype == bool
    table.to_parquet(tmp_path / "runs.parquet")
    assert list(pandas.read_parquet(tmp_path / "runs.parquet")["cores"]) == [1, 2, 3]
