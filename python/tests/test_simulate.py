"""Simulations: the same figures as the command's, and refused arguments."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading

import pytest
import wattline as wl

LIGHT = "poisson:1Mpps,size=64"
#: Figures that depend on the machine's speed alone.
CLOCK = {"wall_seconds", "simulated_packets_per_second"}


def without_clock(document):
    """The document without figures that depend on the speed of the machine, and without the build."""
    return {
        key: [without_clock(it) for it in value] if key == "intervals" else value
        for key, value in document.items()
        if key not in CLOCK | {"build"}
    }


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ({"policy": "queue-length", "traffic": "poisson:5Mpps,size=64", "duration": "50ms"}, []),
        ({"policy": "ondemand:sampling_rate=5ms", "traffic": LIGHT, "duration": "40ms", "interval": "10ms"}, []),
        (
            {"policy": "napi", "traffic": LIGHT, "duration": "20ms", "output_links": True},
            ["--output-links"],
        ),
        (
            {"traffic": LIGHT, "duration": "20ms", "path": "kernel"},
            [],
        ),
        (
            {"traffic": LIGHT, "duration": "20ms", "seed": 7, "app": "ipsec",
             "knob_faults": "cores:delay=50us"},
            [],
        ),
    ],
)
def test_figures_equal_those_of_the_command(wattline_command, arguments, options):
    line = [wattline_command, "sim", "--json", *options]
    for key, value in arguments.items():
        if value is not True:
            line += [f"--{key.replace('_', '-')}", str(value)]
    printed = subprocess.run(line, check=True, capture_output=True, text=True).stdout
    ours = wl.simulate(**arguments)
    assert without_clock(json.loads(printed)) == without_clock(ours.to_dict())


def test_a_seed_gives_the_same_run_and_another_a_different_one():
    run = [wl.simulate(traffic=LIGHT, duration="10ms", seed=seed).energy_joules for seed in (1, 1, 2)]
    assert run[0] == run[1] != run[2]


def test_intervals_are_a_table_whose_packets_add_up():
    report = wl.simulate(traffic=LIGHT, duration="40ms", interval="10ms")
    assert len(report.intervals) == 4
    assert sum(report.intervals["offered_packets"]) == report.offered_packets


def test_a_run_without_intervals_says_how_to_have_them():
    with pytest.raises(wl.Error, match="interval='10ms'"):
        _ = wl.simulate(traffic=LIGHT, duration="5ms").intervals


def test_one_number_is_that_seed():
    assert wl.sweep(traffics=LIGHT, duration="2ms", seeds=3)["seed"] == [3]


def test_a_sweep_does_not_depend_on_its_threads():
    many = dict(
        traffics=[LIGHT, "constant:1Mpps"], policies=["poll", "queue-length"], seeds=range(2), duration="5ms"
    )
    one, two = (wl.sweep(**many, threads=threads) for threads in (1, 2))
    assert len(one) == 8
    for column in set(one.columns) - CLOCK:
        assert one[column] == two[column], column


def test_objects_and_texts_describe_the_same():
    text = pathlib.Path(__file__).parents[2] / "crates" / "server" / "servers" / "ideal-single-core.toml"
    servers = ["ideal-single-core", wl.Server(str(text)), wl.Server.from_toml(text.read_text())]
    traffic = wl.Traffic("poisson:0.1Mpps,size=64")
    assert traffic.rate_pps == pytest.approx(1e5)
    energies = {
        wl.simulate(server=server, traffic=traffic, policy="poll", duration="5ms").energy_joules
        for server in servers
    }
    assert len(energies) == 1


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"policy": "queue-lenght"}, 'did you mean "queue-length"'),
        ({"traffic": "poison:1Mpps"}, "traffic"),
        ({"duration": "10 bananas"}, "duration"),
        ({"duration": "0s"}, "duration"),
        ({"duration": 1}, "duration=1: allowed are texts with a unit"),
        ({"interval": 0.01}, "interval=0.01: allowed are texts with a unit"),
        ({"seed": -1}, "seed=-1: allowed are whole numbers"),
        ({"seed": 1.5}, "seed=1.5: allowed are whole numbers"),
        ({"interval": "2s"}, "interval"),
        ({"app": "chess"}, "app"),
        ({"knob_faults": "frequency:maybe"}, "knob_faults"),
        ({"traffic": "poisson:500Mpps,size=1500"}, "traffic"),
    ],
)
def test_wrong_descriptions_are_refused_by_name(change, part):
    with pytest.raises(wl.Error, match=part):
        wl.simulate(**{"traffic": LIGHT, **change})
    assert issubclass(wl.Error, ValueError)


def test_files_that_are_not_there_are_os_errors():
    with pytest.raises(FileNotFoundError):
        wl.Traffic("/nowhere/traffic.toml")
    with pytest.raises((OSError, wl.Error), match="nowhere"):
        wl.Server("/nowhere/server.toml")
    with pytest.raises(OSError):
        wl.simulate(traffic="capture:/nowhere/x.pcap", duration="1ms")


def test_progress_rises_to_the_end():
    seen = []
    wl.sweep(traffics=[LIGHT] * 4, duration="100ms", progress=seen.append)
    assert seen == sorted(seen)
    assert all(0 <= share <= 1 for share in seen)


def test_an_error_of_the_progress_ends_the_run():
    def refuse(share):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        wl.simulate(traffic="poisson:20Mpps,size=64", duration="60s", progress=refuse)


@pytest.mark.skipif(sys.platform != "linux", reason="signals of Linux")
@pytest.mark.parametrize("run", [wl.simulate, wl.sweep])
def test_control_c_ends_a_long_run(run):
    timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    name = "traffic" if run is wl.simulate else "traffics"
    with pytest.raises(KeyboardInterrupt):
        run(**{name: "poisson:20Mpps,size=64"}, duration="1h")


@pytest.mark.skipif(sys.platform != "linux", reason="signals of Linux")
@pytest.mark.parametrize("run", ["simulate", "sweep", "keep"])
def test_control_c_ends_a_policy_that_does_not_return_and_names_its_line(run, tmp_path):
    program = tmp_path / "hangs.py"
    program.write_text(
        "import os, signal, sys, time\n"
        "import wattline as wl\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Hangs(wl.Policy):\n"
        "    def decide(self, view):\n"
        "        os.write(1, b'asked\\n')\n"
        "        while True:\n"
        "            time.sleep(0.01)\n"
        "def simulate():\n    wl.simulate(policy=Hangs, traffic='poisson:1Mpps,size=64')\n"
        "def sweep():\n    wl.sweep(policies=Hangs, traffics=['poisson:1Mpps,size=64'] * 2, threads=2)\n"
        "def keep():\n    wl.sweep(policies=Hangs, traffics=['poisson:1Mpps,size=64'] * 2, keep=sys.argv[2])\n"
        "globals()[sys.argv[1]]()\n"
    )
    started = subprocess.Popen([sys.executable, program, run, tmp_path / "kept"], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert started.stdout.readline() == "asked\n"
        started.send_signal(signal.SIGINT)
        _, errors = started.communicate(timeout=60)
    finally:
        started.kill()
        started.wait()
    assert started.returncode == -signal.SIGINT, errors
    assert "KeyboardInterrupt" in errors
    if sys.version_info >= (3, 11):
        # A line of decide.
        assert re.search(r"""hangs\.py(:|", line )[678]\b""", errors), errors
