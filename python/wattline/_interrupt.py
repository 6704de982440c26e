"""Ends policies whose ``decide`` does not return."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

# Time in which a run notices that it is to end: it checks every 50 ms.
PATIENCE_SECONDS = 0.5


def interrupt(thread: int) -> str:
    """Raises KeyboardInterrupt in a thread, as soon as it is in Python again; returns its place."""
    frame = sys._current_frames().get(thread)
    where = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "unknown"
    raised = ctypes.py_object(KeyboardInterrupt)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)
    return where


def forget(thread: int) -> None:
    """Takes back the exception of :func:`interrupt` in a thread that has not seen it yet."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), None)


def note(error: BaseException, where: str) -> None:
    """Adds a note to an error: the line at which a policy was that did not return."""
    add: Any = getattr(error, "add_note", None)  # Python 3.10 has no notes.
    if add:
        add(f"a policy had not returned from decide: it was at {where}")


class Asked:
    """Runs that threads are in. The threads are found by their frames: a list of them could be wrong
    after an interruption that came while it was changed."""

    def run(self, work: Callable[[], str]) -> str:
        """Runs ``work`` on this thread."""
        return work()

    def _threads(self) -> list[int]:
        """Threads that are in :meth:`run`."""
        own = threading.get_ident()
        frames = sys._current_frames().items()
        return [thread for thread, frame in frames if thread != own and self._is_in(frame)]

    def _is_in(self, frame: FrameType | None) -> bool:
        while frame and not (frame.f_code is Asked.run.__code__ and frame.f_locals["self"] is self):
            frame = frame.f_back
        return frame is not None

    def end(self, error: BaseException, is_over: Callable[[], bool]) -> None:
        """Waits until all is over; runs that are not in time are interrupted until they are."""
        until = time.monotonic() + PATIENCE_SECONDS
        noted = False
        while not is_over():
            try:
                time.sleep(0.01)
                if time.monotonic() < until:
                    continue
                until = time.monotonic() + PATIENCE_SECONDS
                for thread in self._threads():
                    where = interrupt(thread)
                    if not noted:
                        note(error, where)
                    noted = True
            except KeyboardInterrupt:
                until = 0.0  # Asked once more: now.
