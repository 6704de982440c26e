"""Ends policies whose ``decide`` does not return."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from types import TracebackType
from typing import Any

# How long a run may take to notice that it is to end: it looks every 50 ms.
PATIENCE_SECONDS = 0.5


def interrupt(thread: int) -> str:
    """Raises KeyboardInterrupt in a thread, as soon as it is in Python again. Where it was."""
    frame = sys._current_frames().get(thread)
    where = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "unknown"
    raised = ctypes.py_object(KeyboardInterrupt)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)
    return where


def tell(error: BaseException, where: str) -> None:
    """Notes on an error where a policy was that did not return."""
    add: Any = getattr(error, "add_note", None)  # Python 3.10 has no notes.
    if add:
        add(f"a policy had not returned from decide: it was at {where}")


class Asked:
    """Threads that run a simulation: each enters and leaves."""

    def __init__(self) -> None:
        self._threads: set[int] = set()

    def __enter__(self) -> None:
        self._threads.add(threading.get_ident())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.discard(threading.get_ident())

    def end(self, error: BaseException) -> None:
        """Waits until all have left; those that do not in time are interrupted until they do."""
        told = False
        while self._threads:
            try:
                until = time.monotonic() + PATIENCE_SECONDS
                while self._threads and time.monotonic() < until:
                    time.sleep(0.01)
            except KeyboardInterrupt:
                pass  # Asked once more: now.
            for thread in tuple(self._threads):
                where = interrupt(thread)
                if not told:
                    tell(error, where)
                told = True
