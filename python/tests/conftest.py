"""Fixtures of several tests."""

import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def program():
    """The program of the same sources, or None."""
    places = [os.environ.get("WATTLINE_BINARY")]
    places += [ROOT / "target" / build / "wattline" for build in ("release", "debug")]
    for place in places:
        # Commands of the laboratory are another program's, which stands beside it.
        if place and pathlib.Path(place).is_file() and pathlib.Path(place).with_name("wattline-lab").is_file():
            return str(place)
    return None


@pytest.fixture
def wattline_command():
    """The program of the same sources, or a skipped test."""
    return program() or pytest.skip("no program wattline: `make build` makes it")


@pytest.fixture
def installed(wattline_command, monkeypatch):
    """The package finds the program."""
    monkeypatch.setenv("WATTLINE_BINARY", wattline_command)
