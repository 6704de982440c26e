"""The notebooks, executed as Jupyter does it; skipped without nbclient."""

import os
import shutil
import time

import pytest

from conftest import ROOT, program

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")
pytest.importorskip("matplotlib", reason="matplotlib is not installed")

NOTEBOOKS = sorted((ROOT / "python" / "notebooks").glob("*.ipynb"))


def test_there_are_three_and_the_docs_name_them():
    assert len(NOTEBOOKS) == 3
    page = (ROOT / "docs" / "tutorial" / "notebooks.md").read_text()
    assert all(f"`{it.name}`" in page for it in NOTEBOOKS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda it: it.stem)
def test_a_notebook_is_kept_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == [] and cell.execution_count is None, "clear its outputs"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda it: it.stem)
def test_a_notebook_runs_to_its_end_and_agrees_with_the_command(path, tmp_path, monkeypatch):
    command = program()
    if command:
        monkeypatch.setenv("WATTLINE_BINARY", command)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3",
                                     resources={"metadata": {"path": str(tmp_path)}})
    begin = time.perf_counter()
    # An exception in a cell, also of an assertion, ends it and this test.
    client.execute()
    print(f"{path.stem}: {time.perf_counter() - begin:.1f} s")
    printed = "".join(
        output.get("text", "")
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    )
    compared = command or shutil.which("wattline") or os.environ.get("WATTLINE_BINARY")
    assert ("equal: " in printed) == bool(compared), printed
