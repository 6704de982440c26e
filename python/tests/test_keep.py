"""Sweeps whose finished runs are files: no run is repeated, and no other file is used."""

import enum
import json
import os
import subprocess
import sys
import threading

import pytest
import wattline as wl

from test_simulate import CLOCK

MANY = dict(
    traffics=["poisson:0.5Mpps,size=64", "constant:1Mpps"], policies=["poll", "queue-length"],
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
    # A damaged result is computed again, and so is one that belongs to other runs.
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
    # Written nowhere, as in a notebook's cell, a class is known by its code.
    text = "class Typed(wl.Policy):\n    def decide(self, view):\n        return wl.Setting(cores={}, wait='poll')\n"
    for cores in (3, 5, 3):
        exec(text.format(cores), namespace := {"wl": wl})
        table = wl.sweep(policies=namespace["Typed"], **few)
        assert table["cores_active_mean"] == pytest.approx([cores])
    assert len(list(tmp_path.iterdir())) == 5
    with pytest.raises(wl.Error, match="Few holds .*lock.*, whose content cannot be seen"):
        wl.sweep(policies=Few(threading.Lock()), **few)


class Few(enum.IntEnum):
    CORES = 2


CORES = 2
TABLE = [0] * 5000


def of_this_module():
    return CORES


class FromEnum(wl.Policy):
    kind = Few.CORES

    def decide(self, view):
        return wl.Setting(cores=int(self.kind), wait="poll")


class FromGlobals(wl.Policy):
    def decide(self, view):
        return wl.Setting(cores=of_this_module() + TABLE[2500], wait="poll")


def test_everything_that_a_policy_decides_by_distinguishes_it(tmp_path, monkeypatch):
    few = dict(traffics="poisson:0.5Mpps,size=64", duration="2ms", warmup="0s", keep=tmp_path)

    def closed_over(cores):
        class Few(wl.Policy):
            decide = lambda self, view: wl.Setting(cores=cores, wait="poll")  # noqa: E731

        return Few

    class Attribute(wl.Policy):
        cores = 2

        def decide(self, view):
            return wl.Setting(cores=self.cores, wait="poll")

    def cores(*policies):
        return wl.sweep(policies=list(policies), **few)["cores_active_mean"]

    for _ in range(2):
        assert cores(closed_over(2), closed_over(8)) == pytest.approx([2, 8])
    assert cores(Attribute) == pytest.approx([2])
    Attribute.cores = 9
    assert cores(Attribute) == pytest.approx([9])
    assert cores(FromEnum) == pytest.approx([2])
    monkeypatch.setattr(FromEnum, "kind", enum.IntEnum("Few", {"CORES": 6}).CORES)
    assert cores(FromEnum) == pytest.approx([6])
    assert cores(FromGlobals) == pytest.approx([2])
    monkeypatch.setitem(globals(), "CORES", 4)
    assert cores(FromGlobals) == pytest.approx([4])
    monkeypatch.setitem(globals(), "TABLE", TABLE[:2500] + [3] + TABLE[2501:])
    assert cores(FromGlobals) == pytest.approx([7])


def test_another_process_finds_the_same_policy(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "import collections, dataclasses, enum, functools, json, random, sys\n"
        "import wattline as wl\n"
        "class Kind(enum.Enum):\n    ONE = 1\n    TWO = 2\n"
        "@functools.lru_cache\ndef half(x): return x / 2\n"
        "@dataclasses.dataclass\nclass Held:\n    names: set = dataclasses.field(default_factory=lambda: {'a', 'b', 'c', 'd'})\n"
        "class Mine(wl.Policy):\n"
        "    kind, draw, held = Kind.TWO, random.Random(1), Held()\n"
        "    seen = collections.deque([1, (2, frozenset('xyz'))], maxlen=4)\n"
        "    me = property(lambda self: self.held)\n"
        "    def __init__(self):\n        super().__init__()\n        self.it, self.own = iter([1, 2]), self\n"
        "    def decide(self, view):\n        return wl.Setting(cores=int(half(8)), wait='poll')\n"
        "from wattline._identity import of_policy\n"
        "print(json.dumps([of_policy(Mine), of_policy(Mine())]))\n"
    )
    outputs = set()
    for seed in "123":
        # Names are strings, whose order in sets is another with each seed; the third run has compiled modules.
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = subprocess.run([sys.executable, "-c", "import mine"], env=environment, cwd=tmp_path, check=True,
                             capture_output=True, text=True)
        outputs.add(run.stdout)
    assert len(outputs) == 1, outputs


def test_a_killed_sweep_goes_on_where_it_ended(tmp_path):
    program = (
        "import sys, os, wattline as wl\n"
        "def die(share):\n"
        "    if share >= 0.5: os.kill(os.getpid(), 9)\n"
        f"wl.sweep(**{MANY!r}, keep=sys.argv[1], threads=1, progress=die)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert ended.returncode == -9
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
