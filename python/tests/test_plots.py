"""Plots: units on the axes, power from 0, intervals; skipped without matplotlib."""

import pytest
import wattline as wl

pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install matplotlib")


@pytest.fixture(autouse=True)
def without_a_screen():
    import matplotlib
    import matplotlib.pyplot as plt

    matplotlib.use("Agg")
    yield
    plt.close("all")


def test_a_sweep_is_plotted_with_one_call():
    table = wl.sweep(traffics=["poisson:1Mpps", "poisson:2Mpps"], policies=["poll", "napi"],
                     seeds=[1, 2], duration="3ms")
    axes = table.plot()
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("offered rate (Mpps)", "power, modelled (W)")
    assert axes.get_ylim()[0] == 0
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["poll", "napi"]
    # Both seeds of a rate are one point.
    x, y = axes.get_lines()[0].get_data()
    assert list(x) == pytest.approx([1, 2], rel=0.1) and len(axes.collections) == 2
    assert y[0] == pytest.approx(sum(table["power_watts"][:2]) / 2)
    latency = table.plot(y="latency_p99_seconds")
    assert latency.get_ylabel() == "latency p99 (µs)"
    assert max(latency.get_lines()[0].get_ydata()) > 1, "in microseconds"
    same = table.plot(ax=axes)
    assert same is axes


def test_a_run_with_intervals_is_plotted_with_one_call(tmp_path):
    report = wl.simulate(traffic="poisson:1Mpps", duration="20ms", interval="5ms")
    figure = report.plot()
    power, rate, latency = figure.axes
    assert (power.get_ylabel(), rate.get_ylabel()) == ("power, modelled (W)", "rate (Mpps)")
    assert latency.get_ylabel() == "latency (µs)"
    assert latency.get_xlabel() == "simulated time (ms)"
    assert {axes.get_ylim()[0] for axes in figure.axes} == {0}
    # The stack's top is the power.
    assert power.dataLim.y1 == pytest.approx(max(report.intervals["power_watts"]))
    figure.savefig(tmp_path / "run.png")
    with pytest.raises(wl.Error, match="interval="):
        wl.simulate(traffic="poisson:1Mpps", duration="2ms").plot()


def test_a_year_is_plotted_with_its_interval():
    fleet = wl.Fleet([wl.Site("a", routers=1000, rate="1Mpps")], step=5.0, seeds=[1, 2],
                     duration="2ms", warmup="1ms")
    year = fleet.year(policy="poll")
    axes = year.plot()
    assert axes.get_ylabel() == "energy (MWh)" and axes.get_ylim()[0] == 0
    assert axes.patches[0].get_height() == pytest.approx(year["energy_kwh_mean"][0] / 1e3)
    ends = axes.containers[0].lines[2][0].get_segments()[0][:, 1]
    assert list(ends) == pytest.approx([year[f"energy_kwh_{end}"][0] / 1e3 for end in ("low", "high")])
    more = wl.compare(fleet.year(policy="napi"), year).plot("site", "saved_energy_kwh_mean")
    assert more.get_ylim()[0] < 0, "it costs more"


def test_names_below_bars_do_not_overlap():
    names = [f"a proposal of {length} letters" for length in range(8)]
    axes = wl.Table({"name": names, "power_watts": list(range(8))}).plot("name", "power_watts")
    axes.figure.canvas.draw()
    shown = [label for label in axes.get_xticklabels()]
    # Slanted lines of text are apart if their distance across is more than the letters' height.
    ends = [label.get_transform().transform(label.get_position())[0] for label in shown]
    height = shown[0].get_fontsize() * axes.figure.dpi / 72
    import math

    slant = math.radians(shown[0].get_rotation())
    assert all((b - a) * math.sin(slant) > height for a, b in zip(ends, ends[1:]))
    few = wl.Table({"name": ["C1", "C3"], "power_watts": [1.0, 2.0]}).plot("name", "power_watts")
    assert few.get_xticklabels()[0].get_rotation() == 0


def test_what_cannot_be_plotted_is_refused():
    table = wl.Table({"a": [1.0, 2.0], "b": ["x", "y"]})
    with pytest.raises(KeyError, match="no column 'power_watts'"):
        table.plot("a", by=None)
    with pytest.raises(wl.Error, match="texts such as 'x'"):
        table.plot("a", "b", None)


def test_runs_that_differ_in_more_than_rate_and_seed_are_not_averaged():
    several = wl.sweep(traffics=["poisson:1Mpps", "poisson:2Mpps"], policies="poll", duration="2ms",
                       servers=["westmere-2010", "xeon-platinum-8470"])
    with pytest.raises(wl.Error, match=r"differ in server .*by='server'"):
        several.plot()
    assert len(several.plot(by="server").get_lines()) == 2
    kinds = wl.sweep(traffics=["poisson:1Mpps", "mmpp:1Mpps"], policies="poll", duration="2ms")
    with pytest.raises(wl.Error, match="differ in traffic"):
        kinds.plot()
