"""Sweeps whose finished runs are files: what was done is not done again, and nothing else is used."""

import json
import os
import subprocess
import sys

import pytest
import wattline as wl

from test_simulate import CLOCK

MANY = dict(
    traffics=["poisson:0.5Mpps,size=64", "constant:1Mpps"], policies=["poll", "powersave"],
    seeds=[1, 2], duration="4ms", warmup="1ms",
)


def same(one, other):
    assert one.columns == other.columns
    for column in set(one.columns) - CLOCK:
        assert one[column] == other[column], column


def test_kept_runs_give_the_same_table_and_are_not_run_again(tmp_path):
    plain = wl.sweep(**MANY)
    first = wl.sweep(**MANY, keep=tmp_path)
    same(plain, first)
    files = sorted(tmp_path.iterdir())
    assert len(files) == len(plain) == 8
    # A result that says something else shows where the second table comes from.
    document = json.loads(files[0].read_text())
    report = json.loads(document["report"])
    report["power_watts"] = -1.0
    files[0].write_text(json.dumps({**document, "report": json.dumps(report)}))
    again = wl.sweep(**MANY, keep=tmp_path)
    assert again["power_watts"].count(-1.0) == 1
    # A damaged one is run again, and so is one that belongs to other runs.
    files[0].write_text('{"piece"')
    files[1].write_text(files[2].read_text())
    same(plain, wl.sweep(**MANY, keep=tmp_path, threads=1))
    assert sorted(tmp_path.iterdir()) == files


@pytest.mark.parametrize(
    "change", [{"duration": "5ms"}, {"seeds": [3]}, {"apps": "ipsec"}, {"servers": "ideal-single-core"}]
)
def test_runs_that_differ_are_kept_apart(tmp_path, change):
    few = {**MANY, "traffics": "poisson:0.1Mpps,size=64", "policies": "poll", "seeds": [1]}
    wl.sweep(**few, keep=tmp_path)
    same(wl.sweep(**{**few, **change}), wl.sweep(**{**few, **change}, keep=tmp_path))
    assert len(list(tmp_path.iterdir())) == 2


def test_a_description_in_a_file_counts_by_its_content(tmp_path):
    file, folder = tmp_path / "traffic.toml", tmp_path / "kept"
    found = []
    for rate in ("1Mpps", "2Mpps"):
        file.write_text(f'[[source]]\nkind = "poisson"\nrate = "{rate}"\n')
        found += wl.sweep(traffics=str(file), duration="2ms", keep=folder)["offered_packets"]
    assert found[1] > 1.5 * found[0]


def test_policies_in_python_are_known_by_source_state_and_version(tmp_path):
    class Few(wl.Policy):
        def __init__(self, cores):
            self.cores = cores

        def decide(self, view):
            return wl.Setting(cores=self.cores, wait="poll")

    few = dict(traffics="poisson:0.5Mpps,size=64", duration="2ms", warmup="0s", keep=tmp_path)
    table = wl.sweep(policies=[Few(2), Few(4)], **few)
    assert table["cores_active_mean"] == pytest.approx([2, 4])
    assert wl.sweep(policies=Few(2), **few)["cores_active_mean"] == pytest.approx([2])
    assert len(list(tmp_path.iterdir())) == 2
    newer = Few(2)
    newer.version = 2
    wl.sweep(policies=newer, **few)
    assert len(list(tmp_path.iterdir())) == 3
    exec("class Hidden(wl.Policy):\n    def decide(self, view): pass\n", namespace := {"wl": wl})
    with pytest.raises(wl.Error, match="source of the policy Hidden"):
        wl.sweep(policies=namespace["Hidden"], **few)
    with pytest.raises(wl.Error, match="does not tell its content"):
        wl.sweep(policies=Few(object()), **few)


def test_a_killed_sweep_goes_on_where_it_ended(tmp_path):
    program = (
        "import sys, os, wattline as wl\n"
        "def die(share):\n"
        "    if share >= 0.5: os.kill(os.getpid(), 9)\n"
        f"wl.sweep(**{MANY!r}, keep=sys.argv[1], threads=1, progress=die)\n"
    )
    told = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert told.returncode == -9
    finished = {file.name: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    assert 4 <= len(finished) < 8
    same(wl.sweep(**MANY), wl.sweep(**MANY, keep=tmp_path))
    for name, time in finished.items():
        assert (tmp_path / name).stat().st_mtime_ns == time, "it was run again"
    assert len(list(tmp_path.iterdir())) == 8


def test_an_error_ends_a_kept_sweep_and_leaves_what_is_done(tmp_path):
    class Broken(wl.Policy):
        def decide(self, view):
            raise ArithmeticError("in a sweep")

    few = {**MANY, "policies": ["poll", Broken], "duration": "2ms"}
    with pytest.raises(ArithmeticError, match="in a sweep"):
        wl.sweep(**few, keep=tmp_path, threads=1)
    assert not [file for file in tmp_path.iterdir() if file.suffix != ".json"]


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(OSError):
        wl.sweep(**MANY, keep=file)
    with pytest.raises(wl.Error, match="on='mars': allowed are"):
        wl.sweep(**MANY, on="mars")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_full_disk_is_an_error_and_leaves_no_half_file(tmp_path, monkeypatch):
    import builtins

    real = builtins.open

    def full(name, mode="r", **more):
        return real("/dev/full" if str(name).endswith(".part") else name, mode, **more)

    monkeypatch.setattr(builtins, "open", full)
    with pytest.raises(OSError, match="No space left"):
        wl.sweep(**MANY, keep=tmp_path)
    assert list(tmp_path.iterdir()) == []
