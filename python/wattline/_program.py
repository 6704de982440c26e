"""The installed program of the same version."""

from __future__ import annotations

import json
import os
from typing import Any

from . import _wattline


def build() -> str:
    """The build of the installed program: its version and commit."""
    import subprocess

    ended = subprocess.run([program(), "--version"], capture_output=True, text=True, check=True)
    return ended.stdout.removeprefix("wattline ").strip()


def program() -> str:
    """The program of this version."""
    import shutil
    import subprocess

    found = os.environ.get("WATTLINE_BINARY") or shutil.which("wattline")
    if not found:
        raise FileNotFoundError(
            "this needs the program wattline, which is no part of the Python package: there is none in "
            "PATH, and WATTLINE_BINARY names none. Install Wattline's Debian or RPM packages wattline and "
            "wattline-lab of version "
            f"{_wattline.__version__}; or in its sources run `make build` and set WATTLINE_BINARY to "
            "the path of target/release/wattline"
        )
    ended = subprocess.run([found, "--version"], capture_output=True, text=True, check=True)
    version = ended.stdout.split()[1:2]
    if version != [_wattline.__version__]:
        raise _wattline.Error(
            f"{found} is of version {' '.join(version) or 'unknown'}, this package of "
            f"{_wattline.__version__}: their figures differ; install the same"
        )
    return found


def run(*arguments: str) -> Any:
    """The JSON document of a command; its error as this package's."""
    import subprocess

    ended = subprocess.run([program(), *arguments, "--json"], capture_output=True, text=True)
    if ended.returncode == 0:
        return json.loads(ended.stdout)
    try:
        messages = "; ".join(json.loads(ended.stdout)["error"]["messages"])
    except (ValueError, KeyError, TypeError):
        messages = ended.stderr.strip()
    message = messages or f"wattline {arguments[0]} ended with {ended.returncode}"
    # Exit codes of sysexits.h: inputs and rights are the system's, the rest is the description.
    raise OSError(message) if ended.returncode in (66, 74, 77) else _wattline.Error(message)
