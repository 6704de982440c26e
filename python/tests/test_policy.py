"""Policies written in Python."""

import functools
import operator
import time
import traceback
import types

import pytest
import wattline as wl

TRAFFIC = "poisson:2Mpps,size=64"


def run(policy, **more):
    return wl.simulate(policy=policy, traffic=TRAFFIC, **{"duration": "20ms", **more})


class Still(wl.Policy):
    """Half of the cores at their slowest."""

    def decide(self, view):
        slowest = view.machine.frequencies_ghz[0]
        return wl.Setting(cores=6, frequency_ghz=slowest, idle_state="C6", wait="interrupt")


def test_what_it_asks_for_holds():
    report = run(Still)
    assert report.policy == "Still"
    assert report.cores_active_mean == pytest.approx(6)
    assert report.frequency_mean_hertz == pytest.approx(1.6e9, rel=1e-6)
    assert report.power_watts < run("poll").power_watts


def test_it_equals_the_built_in_policy_that_does_the_same():
    class Poll(wl.Policy):
        def decide(self, view):
            machine = view.machine
            return wl.Setting(
                cores=machine.cores, frequency_ghz=machine.frequencies_ghz[-1], wait="poll"
            )

    ours, built_in = run(Poll), run("poll")
    for key in ("energy_joules", "forwarded_packets", "latency_p99_seconds", "power_watts"):
        assert ours[key] == pytest.approx(built_in[key], rel=1e-9), key


def test_it_sees_what_happens():
    seen = []

    class Watch(wl.Policy):
        every_seconds = 2e-3
        late_after_seconds = 10e-6
        looks_at_power = True

        def decide(self, view):
            seen.append(view)

    report = run(Watch, warmup="0s")
    first, later = seen[0], seen[1:]
    assert (first.trigger, first.time_seconds, first.since_seconds) == ("start", 0, 0)
    assert len(seen) == pytest.approx(10, abs=1)
    assert [view.time_seconds for view in later[:2]] == pytest.approx([2e-3, 4e-3])
    assert all(view.rate_pps == pytest.approx(2e6, rel=0.2) for view in later)
    assert all(0 < view.load < 1 for view in later)
    last = later[-1]
    assert sum(queue.arrivals for queue in last.queues) <= report.offered_packets
    assert len(last.cores) == last.machine.cores == len(last.active_cores) == 12
    assert last.latency.samples > 0 and last.latency.p99_seconds >= last.latency.mean_seconds
    assert last.power_watts == pytest.approx(report.power_watts, rel=0.2)
    assert "View(" in repr(last) and "Machine(" in repr(last.machine)


def test_it_is_asked_when_a_queue_fills():
    triggers = []

    class Filled(wl.Policy):
        every_seconds = 1.0
        at_fill = 3

        def decide(self, view):
            triggers.append((view.trigger, max(queue.fill for queue in view.queues)))

    run(Filled)
    fills = [fill for trigger, fill in triggers if trigger == "fill"]
    assert fills and min(fills) >= 3


def test_it_says_when_it_is_asked_again():
    times = []

    class Doubling(wl.Policy):
        def decide(self, view):
            times.append(view.time_seconds)
            return wl.Setting(again_seconds=max(view.time_seconds, 1e-3))

    run(Doubling, warmup="0s")
    assert times[:4] == pytest.approx([0, 1e-3, 2e-3, 4e-3])


def test_what_it_raises_ends_the_run_with_its_line():
    class Broken(wl.Policy):
        def decide(self, view):
            if view.time_seconds > 5e-3:
                raise KeyError("lost my table")  # the line

    # An hour of simulation would take a day.
    with pytest.raises(KeyError, match="lost my table") as caught:
        run(Broken, duration="1h")
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert frames[-1].filename == __file__
    assert "# the line" in (frames[-1].line or "")
    notes = getattr(caught.value, "__notes__", ["simulated time"])
    assert any("simulated time" in note for note in notes)


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        (5, r"returned 5 \(int\); allowed are Setting and None"),
        (wl.Setting(cores=0), "cores=0: allowed are 1 to 12"),
        (wl.Setting(cores=13), "cores=13: allowed are 1 to 12"),
        (wl.Setting(cores=-(2**62)), "allowed are 1 to 12"),
        (wl.Setting(cores=[]), "at least one core"),
        (wl.Setting(cores=[0, 12]), "core number=12: allowed are 0 to 11"),
        (wl.Setting(frequency_ghz=9.0), "frequency_ghz=9: allowed are 1.600 to 3.333"),
        (wl.Setting(frequency_ghz=float("nan")), "frequency_ghz=NaN"),
        (wl.Setting(idle_state="C9"), 'idle_state="C9": allowed are C1, C3, C6'),
        (wl.Setting(wait="later"), 'wait="later"'),
        (wl.Setting(wait=-1.0), "wait=-1"),
        (wl.Setting(moderation_us=-1.0), "moderation_us=-1"),
        (wl.Setting(batch=0), "batch=0: allowed are 1 to 4096"),
        (wl.Setting(again_seconds=0.0), "again_seconds=0"),
        (wl.Setting(again_seconds=float("inf")), "again_seconds=inf"),
    ],
)
@pytest.mark.parametrize("from_the_start", [True, False])
def test_nonsense_ends_the_run_with_file_and_line(answer, part, from_the_start):
    class Nonsense(wl.Policy):
        def decide(self, view):
            return answer if from_the_start or view.trigger != "start" else None

    with pytest.raises(wl.PolicyError, match=part) as caught:
        run(Nonsense, duration="1h")
    line = Nonsense.decide.__code__.co_firstlineno
    assert f"{__file__}:{line}: decide at" in str(caught.value)


@pytest.mark.parametrize(
    ("policy", "part"),
    [
        (7, "allowed are a text"),
        (object(), "method decide"),
        (type("Every", (wl.Policy,), {"every_seconds": 0}), "every_seconds=0"),
        (type("Text", (wl.Policy,), {"every_seconds": "often"}), "every_seconds"),
        (
            type("Typo", (wl.Policy,), {"every_second": 0.01, "decide": lambda *_: None}),
            "attribute every_second; did you mean every_seconds",
        ),
    ],
)
def test_what_is_no_policy_is_refused(policy, part):
    with pytest.raises(wl.Error, match=part):
        run(policy)


def test_an_attribute_that_raises_is_not_taken_for_one_that_is_missing():
    with pytest.raises(ZeroDivisionError):
        run(type("Raises", (wl.Policy,), {"every_seconds": property(lambda self: 1 / 0)}))


def test_a_policy_without_decide_says_so():
    with pytest.raises(NotImplementedError, match="Bare has no method decide"):
        run(type("Bare", (wl.Policy,), {}))


def test_python_policies_run_beside_built_in_ones_and_share_no_state():
    class Counting(wl.Policy):
        def __init__(self):
            self.asked = 0

        def decide(self, view):
            self.asked += 1
            return wl.Setting(cores=1 + self.asked % 12)

    policy = Counting()
    many = dict(traffics=[TRAFFIC] * 3, policies=[policy, "poll"], duration="10ms")
    table = wl.sweep(**many, threads=2)
    assert table["policy"] == ["Counting"] * 3 + ["poll"] * 3
    energies = table["energy_joules"]
    assert len(set(energies[:3])) == 1 and policy.asked == 0
    # An object that is given to one run is the one that is asked.
    run(policy)
    assert policy.asked > 0


def test_an_error_in_a_sweep_ends_it():
    class Broken(wl.Policy):
        def decide(self, view):
            raise ArithmeticError("in a sweep")

    with pytest.raises(ArithmeticError, match="in a sweep"):
        wl.sweep(traffics=TRAFFIC, policies=["napi", Broken], duration="10min")


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"cores": 2.5}, "cores=2.5: allowed are a number of cores"),
        ({"cores": "3"}, "cores='3': allowed are a number of cores"),
        ({"wait": [1]}, r"wait=\[1\]: allowed are \"poll\""),
    ],
)
def test_a_setting_of_another_type_says_what_is_allowed(given, part):
    with pytest.raises(wl.Error, match=part):
        wl.Setting(**given)


def test_a_frequency_between_two_is_the_faster_one():
    class Between(wl.Policy):
        def decide(self, view):
            slow, next_one = view.machine.frequencies_ghz[:2]
            return wl.Setting(frequency_ghz=(slow + next_one) / 2)

    class Next(wl.Policy):
        def decide(self, view):
            return wl.Setting(frequency_ghz=view.machine.frequencies_ghz[1])

    assert run(Between).frequency_mean_hertz == run(Next).frequency_mean_hertz


@pytest.mark.parametrize(
    ("figure", "attribute"),
    [("latency", "looks_at_latency"), ("power_watts", "looks_at_power")],
)
def test_a_figure_that_was_not_asked_for_says_how_to_ask(figure, attribute):
    class Careless(wl.Policy):
        def decide(self, view):
            getattr(view, figure)

    with pytest.raises(AttributeError, match=f"view.{figure} is there only .* {attribute} = True"):
        run(Careless)


def test_help_lists_the_fields():
    for thing in (wl.Setting, wl.View):
        own = [name for name in vars(thing) if not name.startswith("_")]
        assert all(f"`{name}`" in thing.__doc__ for name in own), thing
    assert "`parked_idle_state`" in wl.Setting.__doc__


@pytest.mark.parametrize("catches", [False, True])
def test_a_decision_that_hangs_is_interrupted_and_its_line_named(catches):
    class Hangs(wl.Policy):
        returns_within_seconds = 0.3
        caught = 0

        def decide(self, view):
            while True:
                try:
                    while True:
                        pass
                except KeyboardInterrupt:
                    Hangs.caught += 1
                    if not catches or Hangs.caught > 1:
                        raise

    line = Hangs.decide.__code__.co_firstlineno
    with pytest.raises(wl.PolicyError, match=r"test_policy\.py:\d+: decide at 0 s of simulated time had not returned after 300ms") as raised:
        wl.simulate(policy=Hangs, traffic="poisson:1Mpps,size=64", duration="1ms")
    place = int(str(raised.value).split(".py:")[1].split(":")[0])
    assert line < place <= line + 9 and Hangs.caught == 1 + catches
    # Nothing is left that would come up later.
    assert sum(range(100_000)) > 0


def test_an_interruption_that_comes_too_late_is_forgotten():
    """It is raised while the decision is in code of C, and that returns by itself."""
    long = functools.partial(operator.contains, range(2 * 10**7))
    late = types.SimpleNamespace(decide=long, returns_within_seconds=0.1)
    with pytest.raises(wl.PolicyError, match="returned False"):
        wl.simulate(policy=late, traffic="poisson:1Mpps,size=64", duration="1ms")
    assert sum(range(100_000)) > 0


def test_a_decision_that_returns_in_time_is_not_interrupted():
    class Slow(wl.Policy):
        every_seconds = 0.01
        returns_within_seconds = 0.2

        def decide(self, view):
            time.sleep(0.05)

    assert wl.simulate(policy=Slow, traffic="poisson:1Mpps,size=64", duration="60ms").forwarded_packets
    Slow.returns_within_seconds = None
    assert wl.simulate(policy=Slow, traffic="poisson:1Mpps,size=64", duration="20ms").forwarded_packets
    for wrong in (0, -1.0, float("nan"), 1e300):
        Slow.returns_within_seconds = wrong
        with pytest.raises(wl.Error, match="returns_within_seconds"):
            wl.simulate(policy=Slow, traffic="poisson:1Mpps,size=64", duration="1ms")


def test_policies_of_one_class_are_told_apart_by_their_parameters():
    class Fixed(wl.Policy):
        def __init__(self, cores):
            self.cores = cores

        def decide(self, view):
            return wl.Setting(cores=self.cores)

    table = wl.sweep(policies=[Fixed(2), Fixed(12)], traffics="poisson:1Mpps", duration="2ms")
    assert table["policy"] == ["Fixed(cores=2)", "Fixed(cores=12)"]
