"""The package as it is installed."""

import importlib.metadata
import os
import subprocess
import sys
import time

import pytest
import wattline as wl
import wattline._wattline as compiled

from conftest import ROOT


def test_the_stub_names_what_the_compiled_half_has():
    stub = os.path.join(os.path.dirname(wl.__file__), "_wattline.pyi")
    with open(stub) as text:
        lines = text.read()
    namespace = {}
    # A stub is Python, but for names that are used before they are defined.
    exec(compile("from __future__ import annotations\n" + lines, stub, "exec"), namespace)
    for name, thing in vars(compiled).items():
        if name.startswith("__") and name != "__version__":
            continue
        if name != "__version__":
            assert name in namespace, f"{name} is missing in the stub"
        if isinstance(thing, type):
            own = {it for it in vars(thing) if not it.startswith("_")}
            stubbed = {it for it in vars(namespace[name]) if not it.startswith("_")}
            assert own == stubbed, name


def test_everything_that_is_offered_is_there_and_documented():
    for name in wl.__all__:
        thing = getattr(wl, name)
        assert name == "__version__" or thing.__doc__, f"{name} has no description"
    version = importlib.metadata.version("wattline")
    manifest = (ROOT / "Cargo.toml").read_text()
    assert wl.__version__ == version
    assert f'version = "{version}"' in manifest, "the version of the workspace"


def test_it_needs_nothing_else_and_is_imported_fast():
    assert not [it for it in importlib.metadata.requires("wattline") or [] if "extra ==" not in it]
    best = min(imported() for _ in range(5))
    assert best < 0.1, f"import takes {best:.3f} s"


def imported():
    program = (
        "import time, json; begin = time.process_time(); import wattline;"
        "print(time.process_time() - begin)"
    )
    run = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    return float(run.stdout)


def test_the_wheel_is_small_and_for_every_python():
    wheel = os.environ.get("WATTLINE_WHEEL")
    if not wheel:
        pytest.skip("WATTLINE_WHEEL does not name the wheel")
    assert os.path.getsize(wheel) < 10_000_000
    assert "-cp310-abi3-" in os.path.basename(wheel)


def test_a_policy_in_python_costs_less_than_the_simulation():
    class Idle(wl.Policy):
        def decide(self, view):
            return None

    run = dict(traffic="poisson:5Mpps,size=64", duration="200ms")
    spent = {}
    for policy in ("performance", Idle):
        times = []
        for _ in range(3):
            begin = time.process_time()
            wl.simulate(policy=policy, **run)
            times.append(time.process_time() - begin)
        spent[policy] = min(times)
    print(f"built-in {spent['performance']:.3f} s, in Python every millisecond {spent[Idle]:.3f} s")
    assert spent[Idle] < 2 * spent["performance"]


def test_builds_are_not_mixed():
    from wattline import _wattline
    from wattline._pieces import same_build

    assert _wattline.__build__.startswith(f"{wl.__version__} (")
    same_build(_wattline.__build__, _wattline.__build__)
    with pytest.raises(wl.Error, match=r"has Wattline 0\.1\.0 \(aaaa\), .* has 0\.1\.0 \(bbbb\)"):
        same_build("0.1.0 (aaaa)", "0.1.0 (bbbb)")
