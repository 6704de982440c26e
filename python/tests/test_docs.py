"""The Python blocks of the documentation run, in order; with short runs in place of long ones."""

import functools
import re
import types

import pytest
import wattline as wl

from conftest import ROOT

PAGES = ["docs/how-to/simulate-from-python.md", "docs/how-to/fleet-savings.md", "python/README.md"]
#: Blocks with these need files, a cluster or minutes, which a test of the documentation lacks.
ELSEWHERE = {'"rows.csv"': "test_command.py", 'on="ray"': "test_ray.py"}


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_run(page, tmp_path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    pytest.importorskip("pandas")
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    short = types.SimpleNamespace(**{name: getattr(wl, name) for name in wl.__all__})
    short.simulate = lambda **given: wl.simulate(**{**given, "duration": "20ms", "warmup": "1ms"})
    short.sweep = functools.partial(wl.sweep, duration="2ms", warmup="1ms")
    short.Fleet = functools.partial(wl.Fleet, seeds=[1, 2], step=4.0, duration="1ms", warmup="1ms")
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)
    namespace = {"wl": short}
    ran = 0
    for block in blocks:
        if any(mark in block for mark in ELSEWHERE):
            continue
        code = block.replace("import wattline as wl\n", "")
        exec(compile(code, f"{page}, block {blocks.index(block) + 1}", "exec"), namespace)
        ran += 1
    assert ran
    assert all((ROOT / "python" / "tests" / name).exists() for name in ELSEWHERE.values())
