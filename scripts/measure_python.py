"""Measures the package: `scripts/measure-python` calls it.

Everything that is compared runs in turn, round for round. Processor time (user and system, of all
processes that take part) is what counts: other programs on the machine change it least.
"""

import os
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import time

SIMULATION = dict(policy="queue-length", traffic="poisson:5Mpps,size=64", duration="500ms", seed=1)
SWEEP = dict(policies=["poll", "queue-length"], traffics=["poisson:2Mpps,size=64", "poisson:5Mpps,size=64"],
             seeds=range(6), duration="1s")


def child(*command):
    """Processor seconds of a program, with all that it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def python(code):
    return child(sys.executable, "-c", code)


def here(call):
    """Processor seconds of this process in a call."""
    before = time.process_time()
    call()
    return time.process_time() - before


def show(name, values, unit="ms", scale=1e3):
    low, high = min(values) * scale, max(values) * scale
    print(f"{name}: {statistics.median(values) * scale:.1f} {unit} ({low:.1f} to {high:.1f})", flush=True)


def import_time(rounds):
    bare, ours = [], []
    for _ in range(rounds):
        bare.append(python("pass"))
        ours.append(python("import wattline"))
    show("import wattline, processor time", [b - a for a, b in zip(bare, ours)])
    show("Python itself", bare)


def beside_the_command(command, rounds):
    if not pathlib.Path(command).is_file():
        print(f"beside the command: not measured, {command} is missing (COMMAND=... names it)")
        return
    arguments = [part for key, value in SIMULATION.items() for part in (f"--{key}", str(value))]
    code = f"import wattline; wattline.simulate(**{SIMULATION!r})"
    ratios, whole = [], []
    # Without the cost of starting, and with it.
    for _ in range(rounds):
        start = python("import wattline")
        ours = python(code)
        theirs = child(command, "sim", "--server", "westmere-2010", *arguments)
        ratios.append((ours - start) / theirs)
        whole.append(ours / theirs)
    show("a simulation from Python, of the command's processor time", ratios, "%", 100)
    show("the same with start and import of Python", whole, "%", 100)


def python_policy(rounds):
    import wattline as wl

    class Poll(wl.Policy):
        """The rule of the built-in policy of this name, asked every millisecond."""

        every_seconds = 0.001

        def decide(self, view):
            machine = view.machine
            return wl.Setting(cores=machine.cores, frequency_ghz=machine.frequencies_ghz[-1], wait="poll")

    added = []
    for rate in ("0.5Mpps", "5Mpps"):
        added.clear()
        run = dict(traffic=f"poisson:{rate},size=64", duration="500ms", seed=1)
        for _ in range(rounds):
            built_in = here(lambda: wl.simulate(policy="poll", **run))
            added.append((here(lambda: wl.simulate(policy=Poll, **run)) - built_in) / built_in)
        show(f"a policy in Python every ms at {rate} adds, of the simulation", added, "%", 100)


def processes(ours):
    """Processor seconds so far of this process and of those whose command line has one of `ours`."""
    tick, total = os.sysconf("SC_CLK_TCK"), 0
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(entry.name) == os.getpid() or any(part in command for part in ours):
            total += (int(fields[11]) + int(fields[12])) / tick
    return total


def on_ray(rounds):
    try:
        import ray
    except ImportError:
        print("on Ray: not measured, Ray is not installed")
        return
    os.environ["RAY_AUTH_MODE"] = "disabled"
    cores = len(os.sched_getaffinity(0))
    ray.init(num_cpus=cores, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    parts = [part.encode() for part in ("ray::", ray.get_runtime_context().gcs_address, "/ray/")]
    sweep_on_ray(rounds, cores, parts)
    fleets_on_ray(parts)
    ray.shutdown()


def sweep_on_ray(rounds, cores, parts):
    import wattline as wl

    wl.sweep(**{**SWEEP, "duration": "5ms"}, on="ray")  # workers have started and imported
    runs = len(SWEEP["policies"]) * len(SWEEP["traffics"]) * len(SWEEP["seeds"])
    work, wall = [], []
    for _ in range(rounds):
        alone = here(lambda: wl.sweep(**SWEEP, threads=1))
        each = alone / runs
        clock = time.monotonic()
        wl.sweep(**SWEEP, threads=cores)
        threads = time.monotonic() - clock
        begun, clock = processes(parts), time.monotonic()
        wl.sweep(**SWEEP, on="ray")
        wall.append(threads / (time.monotonic() - clock))
        work.append(alone / (processes(parts) - begun))
    print(f"a sweep on Ray: {runs} runs of {each * 1e3:.0f} ms")
    show("the same: processor time of the runs alone, of all that Ray took", work, "%", 100)
    # On a busy machine more processes get more processor time.
    show(f"the same, by the clock, a quiet machine only: rate on {cores} workers, of {cores} threads", wall, "%", 100)


def fleets_on_ray(parts):
    """Savings by another policy: two years of a fleet and their difference, each router with a
    mean rate of its own. Every fleet is new, so that it simulates its own table of power."""
    import wattline as wl

    names, rates = ["edge", "core", "metro", "data-centre"], random.Random(1)
    for routers, sites in ((1_000, 2), (10_000, 2), (100_000, 2), (10_000, 4)):
        mean = [[rates.uniform(0.3e6, 3e6) for _ in range(routers // sites)] for _ in range(sites)]
        # The ends of the range are the same for all fleets, and so is the work of the simulations.
        for those in mean:
            those[0], those[-1] = 0.3e6, 3e6
        fleet = wl.Fleet([wl.Site(name, routers=len(those), rate=those) for name, those in zip(names, mean)])
        begun, clock = processes(parts), time.monotonic()
        years = [fleet.year(policy=policy, on="ray") for policy in ("napi", "queue-length")]
        wl.compare(*years)
        first = (time.monotonic() - clock, processes(parts) - begun)
        begun, clock = processes(parts), time.monotonic()
        fleet.year(policy="queue-length", on="ray")
        again = (time.monotonic() - clock, processes(parts) - begun)
        print(
            f"a fleet of {routers} routers at {sites} sites on Ray, napi against queue-length: "
            f"{first[0]:.1f} s by the clock, {first[1]:.1f} s of processor time; "
            f"another year from the same table: {again[0]:.2f} s, {again[1]:.2f} s",
            flush=True,
        )


if __name__ == "__main__":
    program, rounds = sys.argv[1], int(sys.argv[2])
    wheels = list(pathlib.Path("wheels").glob("*.whl"))
    for wheel in wheels:
        print(f"wheel: {wheel.stat().st_size / 1e6:.2f} MB")
    import_time(2 * rounds)
    beside_the_command(program, rounds)
    python_policy(rounds)
    on_ray(rounds)
