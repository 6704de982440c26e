"""Functions that run the installed program; skipped without the program."""

import subprocess

import pytest
import wattline as wl


def test_figures_of_papers_come_as_a_table_of_checks(installed, tmp_path):
    checks = wl.reproduce("powersave/table1", out=tmp_path / "out")
    assert set(checks["figure"]) == {"table1"} and "meets" in checks["verdict"]
    assert checks["published"][:3] == ["133", "120", "115"]
    assert (tmp_path / "out" / "powersave" / "table1.csv").exists()


def test_the_cheapest_setting_for_a_rate_carries_it(installed):
    by_name = wl.optimise("westmere-2010", "5Mpps")
    assert by_name["capacity_pps"] >= 5e6 and by_name["source"] == "modelled"
    assert wl.optimise(wl.Server("westmere-2010"), "5Mpps") == by_name
    assert wl.optimise("westmere-2010", "5Mpps", app="ipsec")["cores"] > by_name["cores"]


def test_rates_over_time_are_a_file_or_columns(installed, tmp_path):
    rates = {"time_seconds": [0.0, 1.0, 2.0], "rate_pps": [1e6, 5e6, 1e6]}
    file = tmp_path / "day.csv"
    file.write_text("time_seconds,rate_pps\n0,1e6\n1,5e6\n2,1e6\n")
    chosen = wl.optimise("westmere-2010", trace=rates)
    assert chosen == wl.optimise("westmere-2010", trace=file) and chosen["energy_joules"] > 0
    with pytest.raises(wl.Error, match="either a rate or trace"):
        wl.optimise("westmere-2010", "1Mpps", trace=rates)


def test_receive_path_takes_any_sizes_and_proposals(installed):
    paths = wl.receive(llc_bytes=8 << 20, proposal="none,contiguous-buffers", packets=6000)["paths"]
    assert [it["path"]["llc_bytes"] for it in paths] == [8 << 20] * 2
    assert paths[1]["cycles_per_packet"] < paths[0]["cycles_per_packet"]
    with pytest.raises(wl.Error, match="ring is 9999"):
        wl.receive(ring=9999)


def test_least_energy_keeps_its_bound(installed):
    options = {"traffic": "poisson:2Mpps", "duration": "5ms", "warmup": "2ms"}
    loose, tight = (wl.envelope(**options, p99=bound) for bound in ("200us", "40us"))
    assert 0 < loose["lower_bound_joules"] <= tight["lower_bound_joules"]
    with pytest.raises(wl.Error, match="p99"):
        wl.envelope(**options, p99="soon")


def test_requests_are_simulated_as_by_the_program(installed):
    report = wl.requests("memcached:100krps", policy="performance", duration="20ms", warmup="10ms")
    assert report.power_watts > 0 and report["source"] == "modelled"
    with pytest.raises(wl.Error, match="memcachd"):
        wl.requests("memcachd:1krps")


def test_a_simulated_router_is_characterised(installed, tmp_path):
    own, fitted = tmp_path / "own.toml", tmp_path / "fitted.toml"
    text = wl.Server("ideal-single-core").toml
    own.write_text(text.replace("board_watts = 0", "board_watts = 20"))
    found = wl.characterise(own, out=fitted)["fit"]
    assert found["frequencies"][0]["max_rate_pps"]["value"] == pytest.approx(1e6, rel=0.01)
    assert wl.optimise(wl.Server(str(fitted)), "500kpps")["cores"] == 1


def test_measured_rows_become_a_server_file(installed, tmp_path):
    rows = {"frequency_hertz": [], "cores": [], "throughput_pps": [], "power_watts": [], "offered_pps": []}
    for gigahertz in (1.0, 1.5, 2.0):
        for cores in (1, 2, 4):
            capacity = 1e6 * gigahertz * cores
            for offered in (0.0, 0.2, 0.4, 0.6, 0.8, 1.2):
                share = min(offered, 1.0)
                watts = 50 + cores * (1 + 2 * gigahertz**2 * share)
                values = (1e9 * gigahertz, cores, share * capacity, watts, offered * capacity)
                for column, value in zip(rows.values(), values):
                    column.append(value)
    document = wl.fit(wl.Table(rows), out=tmp_path / "mine.toml", name="mine")
    assert document
    assert wl.Server(str(tmp_path / "mine.toml")).name == "mine"
    for frames in ("pandas", "polars"):
        try:
            frame = __import__(frames).DataFrame(rows)
        except ImportError:
            continue
        assert wl.fit(frame, name="mine") == wl.fit(rows, name="mine")
    flat = {**rows, "power_watts": [50.0] * len(rows["cores"])}
    with pytest.raises(wl.Error, match="same in every row"):
        wl.fit(flat)


def test_errors_of_the_command_are_the_packages(installed, tmp_path):
    with pytest.raises(OSError, match="nosuch.toml"):
        wl.league("nosuch.toml")
    with pytest.raises(wl.Error, match=r"\[tuning\]"):
        wl.league("nosuch.toml", tuned=True)
    with pytest.raises(wl.Error, match="table99"):
        wl.reproduce("powersave/table99")
    with pytest.raises(wl.Error, match="banana"):
        wl.optimise("westmere-2010", "1 banana")


def test_another_version_or_none_is_refused(monkeypatch, tmp_path):
    monkeypatch.delenv("WATTLINE_BINARY", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="WATTLINE_BINARY names none.*Debian or RPM package.*`make build`"):
        wl.optimise("westmere-2010", "5Mpps")
    other = tmp_path / "wattline"
    other.write_text("#!/bin/sh\necho wattline 0.0.1\n")
    other.chmod(0o755)
    subprocess.run([str(other)], check=True)
    with pytest.raises(wl.Error, match=r"of version 0\.0\.1"):
        wl.optimise("westmere-2010", "5Mpps")
