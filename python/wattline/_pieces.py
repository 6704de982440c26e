"""Simulations one by one: spread over threads or a Ray cluster, and kept as files."""

from __future__ import annotations

import copy
import json
import os
import re
import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from . import _wattline
from ._identity import of_policy
from ._interrupt import Asked

if TYPE_CHECKING:
    from concurrent.futures import Future

# Time between two checks for signals in a sweep on threads.
LOOK_SECONDS = 0.2


@dataclass(frozen=True)
class Piece:
    """One run of a sweep."""

    server: _wattline.Server
    policy: Any
    traffic: _wattline.Traffic
    app: str
    seed: int
    options: dict[str, Any]

    advice = "with keep=DIR, the same call goes on where this one ended"

    @property
    def what(self) -> str:
        """The run, for the message of a worker that died."""
        return f"seed {self.seed} with {self.traffic.text!r}"

    def run(self, progress: Callable[[float], object] | None = None) -> str:
        """The document of its result."""
        # Each run has a policy of its own: what one learnt must not reach the next.
        policy = self.policy if isinstance(self.policy, (str, type)) else copy.deepcopy(self.policy)
        return _wattline.simulate(
            self.server, policy, self.traffic, self.app, self.seed, self.options, progress
        )

    def identity(self, of: Callable[[Any], str | dict[str, Any]]) -> dict[str, Any]:
        """Everything that its result depends on: pieces that agree in it have the same result.

        ``of`` is :func:`known`, which may remember policies that it has seen.
        """
        return {
            "wattline": _wattline.__build__,
            # With its figures: a server file may name parts of other files.
            "server": _digest((self.server.toml + self.server.figures_json()).encode()),
            "policy": of(self.policy),
            "traffic": self.traffic.text,
            "traffic_description": self.traffic.description,
            "traffic_files": {name: _of_file(name) for name in _files(self.traffic.description)},
            "app": self.app,
            "seed": self.seed,
            "options": self.options,
        }


def known(policy: Any) -> str | dict[str, Any]:
    """Distinguishes a policy from others: its text, or its identity in Python."""
    return policy if isinstance(policy, str) else of_policy(policy)


def _identities(pieces: Sequence[Repeatable]) -> list[dict[str, Any]]:
    """Identity of each piece; a shared policy is examined once."""
    found: dict[int, str | dict[str, Any]] = {}

    def of(policy: Any) -> str | dict[str, Any]:
        if id(policy) not in found:
            found[id(policy)] = known(policy)
        return found[id(policy)]

    return [piece.identity(of) for piece in pieces]


def _digest(content: bytes) -> str:
    import hashlib

    return hashlib.sha256(content).hexdigest()


def _of_file(name: str) -> str:
    import hashlib

    digest = hashlib.sha256()
    with open(name, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _files(description: str) -> list[str]:
    """Files that a traffic names, in its text or as strings of its TOML."""
    values = re.findall(r'"([^"\n]*)"', description) + re.findall(r"'([^'\n]*)'", description)
    for source in description.split(" + "):
        for part in source.split(","):
            values += re.split("[:=]", part, maxsplit=1)
    return sorted({value for value in values if os.path.isfile(value)})


def write_whole(name: str, content: bytes) -> None:
    """Writes a file atomically: readers find the old one or the new one."""
    unfinished = f"{name}.{os.getpid()}.{threading.get_ident()}.part"
    try:
        with open(unfinished, "wb") as file:
            file.write(content)
        os.replace(unfinished, name)
    except BaseException:
        if os.path.exists(unfinished):
            os.remove(unfinished)
        raise


class Kept:
    """A folder with the results of finished pieces, one file each."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = os.fspath(folder)
        os.makedirs(self._folder, exist_ok=True)

    def _file(self, identity: dict[str, Any]) -> str:
        name = _digest(json.dumps(identity, sort_keys=True).encode())[:32]
        return os.path.join(self._folder, f"{name}.json")

    def read(self, identity: dict[str, Any]) -> str | None:
        """The result, if this piece was finished; a damaged file counts as none."""
        try:
            with open(self._file(identity), encoding="utf-8") as file:
                document = json.load(file)
        except (FileNotFoundError, ValueError):
            return None
        if not isinstance(document, dict) or document.get("piece") != _plain(identity):
            return None
        report = document.get("report")
        return report if isinstance(report, str) else None

    def write(self, identity: dict[str, Any], report: str) -> None:
        """Keeps a result; what is there is whole at any moment."""
        kept = json.dumps({"piece": identity, "report": report})
        write_whole(self._file(identity), kept.encode())


def _plain(identity: dict[str, Any]) -> Any:
    """Value as read back from a file."""
    return json.loads(json.dumps(identity))


def run_all(
    pieces: Sequence[Repeatable],
    *,
    on: str,
    threads: int,
    keep: str | os.PathLike[str] | None,
    show: Callable[[float], object] | None,
) -> list[str]:
    """Runs all pieces, but for those that are kept; results are in their order."""
    if on not in ("threads", "ray"):
        raise _wattline.Error(f"on={on!r}: allowed are 'threads' and 'ray'")
    if on == "ray" and threads:
        raise _wattline.Error("threads: of this machine; Ray spreads runs over what its cluster has")
    results: list[str | None] = [None] * len(pieces)
    kept = None if keep is None else Kept(keep)
    identities = _identities(pieces) if kept else []
    if kept:
        results = [kept.read(identity) for identity in identities]
    missing = [at for at, result in enumerate(results) if result is None]
    done = len(pieces) - len(missing)
    finished = on_ray(pieces, missing) if on == "ray" else _on_threads(pieces, missing, threads)
    try:
        for at, result in finished:
            results[at] = result
            if kept:
                kept.write(identities[at], result)
            done += 1
            if show:
                show(done / len(pieces))
    finally:
        finished.close()
    return [result for result in results if result is not None]


def _on_threads(
    pieces: Sequence[Repeatable], missing: list[int], threads: int
) -> Generator[tuple[int, str], None, None]:
    from concurrent.futures import ThreadPoolExecutor
    from queue import Empty, SimpleQueue

    stop = threading.Event()

    def watch(share: float) -> None:
        if stop.is_set():
            raise InterruptedError("another run of the sweep has failed")

    asked = Asked()
    done: SimpleQueue[Future[str]] = SimpleQueue()

    def run(piece: Repeatable) -> str:
        return asked.run(lambda: piece.run(watch))

    name = f"wattline-{id(asked)}-"
    pool = ThreadPoolExecutor(threads or len(os.sched_getaffinity(0)), thread_name_prefix=name)
    futures: dict[Future[str], int] = {}
    try:
        for at in missing:
            future = pool.submit(run, pieces[at])
            futures[future] = at
            future.add_done_callback(done.put)
        left = len(futures)
        while left:
            try:
                # Python hears a signal that arrives just before a wait begins only after it.
                future = done.get(timeout=LOOK_SECONDS)
            except Empty:
                continue
            left -= 1
            yield futures[future], future.result()
        pool.shutdown()
    except BaseException as error:
        # Results of pieces that still run would be discarded.
        stop.set()
        pool.shutdown(wait=False, cancel_futures=True)
        # Not by the futures: the last one may be lost that was submitted when the error came.
        asked.end(error, lambda: not any(it.name.startswith(name) for it in threading.enumerate()))
        raise


class Task(Protocol):
    """Work for a worker of a cluster."""

    @property
    def what(self) -> str:
        """Name of the work, for the message of a worker that died."""

    @property
    def advice(self) -> str:
        """Remedy for a worker that died."""

    def run(self) -> Any:
        """Its result."""


class Repeatable(Task, Protocol):
    """A piece whose result can be kept."""

    def identity(self, of: Callable[[Any], str | dict[str, Any]]) -> dict[str, Any]:
        """All that its result depends on."""

    def run(self, progress: Callable[[float], object] | None = None) -> str:
        """The text of its result."""


def _run(task: Task, build: str) -> Any:
    same_build(_wattline.__build__, build)
    return task.run()


def same_build(here: str, wanted: str) -> None:
    """Refuses to work for a program of another build: results of two are not mixed."""
    if here != wanted:
        raise _wattline.Error(
            f"a worker of the Ray cluster has Wattline {here}, and the program that asks has {wanted}: "
            "install the same on all machines"
        )


def on_ray(tasks: Sequence[Task], missing: Sequence[int]) -> Generator[tuple[int, Any], None, None]:
    """Runs the missing tasks on a cluster; their places and results as they end."""
    if not missing:
        return
    ray = ray_module()
    # Ray itself begins a task anew whose worker dies, three times.
    task = ray.remote(num_cpus=1, max_retries=3)(_run)
    # Enough that no worker waits, and not so many that a long sweep fills the cluster's memory.
    most = 4 * max(1, int(ray.cluster_resources().get("CPU", 1)))
    waiting = list(reversed(missing))
    running: dict[Any, int] = {}
    try:
        while waiting or running:
            while waiting and len(running) < most:
                at = waiting.pop()
                running[task.remote(tasks[at], _wattline.__build__)] = at
            ready, _ = ray.wait(list(running), num_returns=1)
            for reference in ready:
                at = running.pop(reference)
                yield at, _result_of(ray, reference, tasks[at])
    finally:
        for reference in running:
            ray.cancel(reference, force=True)


def _result_of(ray: Any, reference: Any, task: Task) -> Any:
    """Result of a task, or the exception that it raised."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        # The exception of the run, as on threads; its cause has the place.
        raise (error.cause if isinstance(error.cause, Exception) else error) from error
    except (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError) as error:
        raise RuntimeError(
            f"the worker of {task.what} died again and again (out of memory?); {task.advice}"
        ) from error


def ray_module() -> Any:
    """Ray, connected to a cluster."""
    try:
        import ray
    except ImportError:
        raise ImportError("on='ray' needs Ray: pip install ray") from None
    if not ray.is_initialized():
        import logging

        # The cluster that RAY_ADDRESS names, or a new one on this machine.
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.WARNING)
    return ray
