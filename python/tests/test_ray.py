"""The same results on a Ray cluster of two workers on this machine; skipped without Ray."""

import dataclasses
import os
import pathlib
import signal
import threading
import time

import pytest
import wattline as wl

from test_keep import MANY, same

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install ray")


@pytest.fixture(scope="module", autouse=True)
def cluster():
    # On this machine alone; without a token, which Ray would write below the home directory.
    os.environ["RAY_AUTH_MODE"] = "disabled"
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    yield
    ray.shutdown()


def test_a_sweep_on_ray_equals_one_without():
    seen = []
    same(wl.sweep(**MANY), wl.sweep(**MANY, on="ray", progress=seen.append))
    assert seen == sorted(seen) and seen[-1] == 1


def test_servers_and_traffics_need_not_be_files_elsewhere(tmp_path):
    traffic = tmp_path / "traffic.toml"
    traffic.write_text('[[source]]\nkind = "poisson"\nrate = "1Mpps"\n')
    server = tmp_path / "server.toml"
    text = pathlib.Path(__file__).parents[2] / "crates" / "server" / "servers" / "ideal-single-core.toml"
    server.write_text(text.read_text())
    few = dict(servers=wl.Server(str(server)), traffics=wl.Traffic(str(traffic)), policies="poll",
               seeds=range(2), duration="2ms")
    plain = wl.sweep(**few)
    traffic.unlink()
    server.unlink()
    same(plain, wl.sweep(**few, on="ray"))


def test_a_worker_that_is_killed_in_the_middle_of_a_run_changes_nothing(tmp_path):
    flag = tmp_path / "killed"

    class Deadly(wl.Policy):
        """Kills the worker that asks it, the first time and in the middle of a run."""

        def decide(self, view):
            if view.time_seconds > 2e-3 and not flag.exists():
                flag.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return wl.Setting(cores=6)

    few = {**MANY, "policies": ["poll", Deadly]}
    on_ray = wl.sweep(**few, on="ray", keep=tmp_path / "kept")
    assert flag.exists(), "no worker was killed"
    same(wl.sweep(**few), on_ray)
    assert len(list((tmp_path / "kept").iterdir())) == len(on_ray)


def test_workers_that_die_again_and_again_end_it_and_the_same_call_goes_on(tmp_path):
    flag, folder = tmp_path / "deadly", tmp_path / "kept"
    flag.touch()

    class Deadly(wl.Policy):
        def decide(self, view):
            if flag.exists() and view.time_seconds > 2e-3:
                os.kill(os.getpid(), signal.SIGKILL)

    few = {**MANY, "policies": ["poll", Deadly], "traffics": MANY["traffics"][0]}
    with pytest.raises(RuntimeError, match="died again and again"):
        wl.sweep(**few, on="ray", keep=folder)
    finished = {file: file.stat().st_mtime_ns for file in folder.iterdir()}
    assert finished, "those of the harmless policy"
    flag.unlink()
    same(wl.sweep(**few), wl.sweep(**few, on="ray", keep=folder))
    assert all(file.stat().st_mtime_ns == time for file, time in finished.items())


def test_what_a_policy_raises_on_a_worker_reaches_the_caller():
    class Broken(wl.Policy):
        def decide(self, view):
            raise ArithmeticError("on a worker")

    with pytest.raises(ArithmeticError, match="on a worker"):
        wl.sweep(**{**MANY, "policies": Broken}, on="ray")
    with pytest.raises(wl.PolicyError, match="cores=99"):
        Broken.decide = lambda self, view: wl.Setting(cores=99)
        wl.sweep(**{**MANY, "policies": Broken}, on="ray")
    with pytest.raises(wl.Error, match="threads"):
        wl.sweep(**MANY, on="ray", threads=2)


def test_a_fleet_on_ray_equals_one_without(tmp_path):
    def fleet():
        return wl.Fleet([wl.Site("edge", routers=10, rate="1Mpps")], step=3.0, seeds=[1, 2],
                        duration="3ms", warmup="1ms")

    plain = fleet().year(policy="queue-length")
    kept = fleet().year(policy="queue-length", on="ray", keep=tmp_path)
    same(plain, kept)
    assert list(tmp_path.iterdir())
    same(plain, fleet().year(policy="queue-length", keep=tmp_path))


@pytest.fixture
def league_file(tmp_path):
    file = tmp_path / "small.toml"
    file.write_text(
        'servers = ["westmere-2010"]\npolicies = ["poll", "ovs-sleep"]\n'
        'traffics = ["poisson:2Mpps,size=64", "poisson:4Mpps,size=64"]\nbudgets = ["100us"]\nseeds = [1, 2]\n'
        'duration = "3ms"\nwarmup = "2ms"\n'
        '[tuning]\nseeds = [3]\nduration = "2ms"\ngrids = ["napi:cores=2|4"]\n'
    )
    return file


def without_build(document):
    return {key: value for key, value in document.items() if key != "build"}


def test_a_league_on_ray_equals_one_without_and_a_lost_piece_is_played_again(
    installed, league_file, tmp_path
):
    seen, out = [], tmp_path / "out"
    plain = without_build(wl.league(league_file))
    assert len(plain["rows"]) == 12 and plain["tunings"]
    played = wl.league(league_file, out=out, on="ray", progress=seen.append)
    assert without_build(played) == plain
    assert seen == sorted(seen) and seen[-1] == 1
    assert "ovs-sleep" in (out / "index.html").read_text()
    pieces = {piece.name: piece.stat().st_mtime_ns for piece in (out / "pieces").iterdir()}
    assert len(pieces) == 14
    lost = sorted(pieces)[0]
    (out / "pieces" / lost).unlink()
    assert without_build(wl.league(league_file, out=out, on="ray")) == plain
    for name, time in pieces.items():
        assert ((out / "pieces" / name).stat().st_mtime_ns == time) == (name != lost), name
    (out / "index.html").write_text("mine")
    with pytest.raises(wl.Error, match="no page of a league"):
        wl.league(league_file, out=out, on="ray")
    league_file.write_text("polices = []\n")
    with pytest.raises(wl.Error, match="small.toml"):
        wl.league(league_file, on="ray")
    with pytest.raises(FileNotFoundError):
        wl.league("nosuch.toml", on="ray")


def test_a_worker_that_is_killed_in_the_middle_of_a_league_changes_nothing(
    installed, league_file, tmp_path, monkeypatch
):
    import wattline._league

    flag = tmp_path / "killed"
    play = wattline._league.Piece.run

    def deadly(self, progress=None):
        """Kills the worker in the middle of the sixth piece, the first time."""
        if self.number == 5 and not flag.exists():
            threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGKILL)).start()
            flag.touch()
            time.sleep(5)
        return play(self, progress)

    @dataclasses.dataclass(frozen=True)
    class Deadly(wattline._league.Piece):
        run = deadly

    plain = without_build(wl.league(league_file))
    monkeypatch.setattr(wattline._league, "Piece", Deadly)
    killed = wl.league(league_file, out=tmp_path / "out", on="ray")
    assert flag.exists(), "no worker was killed"
    assert without_build(killed) == plain
    assert len(list((tmp_path / "out" / "pieces").iterdir())) == 14


def test_figures_on_ray_equal_those_without(installed, tmp_path):
    figures = ["bolla/fig7", "sohan/table3"]
    seen = []
    same(wl.reproduce(*figures), wl.reproduce(*figures, on="ray", progress=seen.append))
    assert seen == [0.5, 1]
    with pytest.raises(wl.Error, match="out: pages"):
        wl.reproduce(*figures, on="ray", out=tmp_path)
    with pytest.raises(wl.Error, match="nobody"):
        wl.reproduce("nobody", on="ray")
