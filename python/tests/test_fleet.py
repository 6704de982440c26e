"""Fleets: exact sums, valid intervals, what-ifs."""

import math
import random
import time

import pytest
import wattline as wl
from wattline._curve import errors, half_width, knots, weights

COARSE = dict(step=2.0, seeds=[1, 2, 3], duration="5ms", warmup="5ms")
FLAT = wl.Day((1.0,), source="a test: the same rate all day")


def one(site, **more):
    return wl.Fleet([site], **{**COARSE, **more})


def test_hours_are_those_of_interpolating_sample_by_sample():
    draw = random.Random(1)
    shape = [draw.expovariate(1) for _ in range(97)]
    mean = sum(shape) / len(shape)
    shape = [it / mean for it in shape]
    means = {draw.uniform(0.2, 3.0): draw.randint(1, 4) for _ in range(20)}
    top = max(means) * max(shape)
    rates = [0.0, 0.3, 0.7, 2.0, 5.0, top]
    values = [math.sqrt(rate) + 1 for rate in rates]

    def interpolated(rate):
        for low, high, left, right in zip(rates, rates[1:], values, values[1:]):
            if rate <= high:
                return left + (right - left) * (rate - low) / (high - low)
        raise AssertionError(rate)

    by_hand = sum(
        count * sum(interpolated(min(mean * it, top)) for it in shape) * 24 / len(shape)
        for mean, count in means.items()
    )
    found = weights(rates, shape, means, 24.0)
    assert found.total(values) == pytest.approx(by_hand, rel=1e-12)
    hours = 24.0 * sum(means.values())
    assert sum(found.at) == pytest.approx(hours) == pytest.approx(sum(found.between))
    assert found.total(rates) == pytest.approx(24 * sum(m * c for m, c in means.items()))


def test_intervals_of_seeds_hold_the_mean_as_often_as_stated():
    draw = random.Random(2)
    held = 0
    for _ in range(2000):
        values = [draw.gauss(10, 2) for _ in range(5)]
        held += abs(sum(values) / 5 - 10) <= half_width(values)
    assert 0.935 < held / 2000 < 0.965


def test_the_error_of_interpolation_is_0_for_a_line_and_an_upper_estimate_for_a_bend():
    rates = [0.0, 1.0, 2.0, 4.0]
    assert errors(rates, [3 + 2 * rate for rate in rates]) == [0, 0, 0]
    bend = errors(rates, [rate**2 for rate in rates])
    for low, high, off in zip(rates, rates[1:], bend):
        middle = (low + high) / 2
        assert off >= (low**2 + high**2) / 2 - middle**2


def test_rates_to_simulate_are_shared_by_fleets_of_other_sizes():
    small, large = knots(1e6, 1.2), knots(2e6, 1.2)
    assert small[0] == 0 and small[-1] == 1e6 and small == sorted(set(small))
    shared = set(small) & set(large)
    assert len(shared) > 0.7 * len(small)
    assert all(1.2**0.2 < b / a <= 1.2**1.2 * 1.001 for a, b in zip(small[1:], small[2:]))


def test_a_flat_day_is_a_simulation_times_a_year():
    fleet = one(wl.Site("a", routers=3, rate="1Mpps", day=FLAT, traffic="poisson:{rate},size=64"))
    year = fleet.year(policy="napi", price_per_kwh=0.5, grams_co2_per_kwh=400.0)
    watts = [
        wl.simulate(policy="napi", traffic="poisson:1Mpps,size=64", duration="5ms", warmup="5ms",
                    seed=seed).power_watts
        for seed in (1, 2, 3)
    ]
    kwh = 3 * 8.760 * sum(watts) / 3
    assert year["energy_kwh_mean"] == pytest.approx([kwh] * 2, rel=1e-12)
    assert year["cost_mean"][0] == pytest.approx(kwh / 2)
    assert year["co2_kg_high"][0] == pytest.approx(year["energy_kwh_high"][0] * 0.4)
    assert year["router_power_watts_mean"][0] == pytest.approx(sum(watts) / 3)
    assert year["energy_kwh_by_seeds"][0] == pytest.approx(3 * 8.760 * half_width(watts))
    width = year["energy_kwh_high"][0] - year["energy_kwh_low"][0]
    parts = year["energy_kwh_by_seeds"][0] + year["energy_kwh_by_interpolation"][0]
    assert width == pytest.approx(2 * parts)
    assert "cost_mean" not in fleet.year(policy="napi").columns, "no price was given"
    assert fleet.year(policy="napi", overhead=1.5)["energy_kwh_mean"][0] == pytest.approx(1.5 * kwh)


@pytest.mark.parametrize("policy", ["napi", "queue-length"])
def test_the_interval_holds_what_a_finer_grid_finds(policy):
    site = wl.Site("a", routers=1, rate="2Mpps", traffic="poisson:{rate},size=64")
    coarse = one(site, step=1.5).year(policy=policy)
    fine = one(site, step=1.1, seeds=[4, 5]).year(policy=policy)
    assert coarse["energy_kwh_low"][0] <= fine["energy_kwh_mean"][0] <= coarse["energy_kwh_high"][0]
    assert coarse["energy_kwh_by_interpolation"][0] < 0.1 * coarse["energy_kwh_mean"][0]


def test_a_day_sample_by_sample_is_near_a_day_in_one_run():
    """The day in one piece, compressed to two seconds: rates change within a run, here they do not."""
    day = wl.Day.built_in(mean=0.35, spikes=12, seed=1)
    fleet = one(
        wl.Site("a", routers=1, rate="2Mpps", day=day, traffic="poisson:{rate},size=64"), step=1.3
    )
    year = fleet.year(policy="napi")
    whole = wl.simulate(policy="napi", traffic="day:2Mpps,size=64,duration=500ms", duration="500ms",
                        warmup="0s")
    # Spikes of both are drawn by different seeds, and cut at different heights.
    assert year["router_power_watts_mean"][0] == pytest.approx(whole.power_watts, rel=0.02)


def test_ten_thousand_routers_take_seconds_once_the_grid_exists():
    draw = random.Random(3)
    rates = [draw.lognormvariate(13, 0.5) for _ in range(10_000)]
    site = wl.Site("a", routers=10_000, rate=rates, traffic="poisson:{rate},size=64")
    fleet = one(site, step=3.0, seeds=[1, 2], duration="1ms", warmup="1ms")
    fleet.curves(policy="poll")
    begin = time.process_time()
    year = fleet.year(policy="poll")
    spent = time.process_time() - begin
    print(f"10,000 routers of different rates: {spent:.2f} s")
    assert spent < 5
    assert year["routers"] == [10_000, 10_000]
    # All alike are counted, not computed one by one, and the same sum comes out.
    alike = one(wl.Site("a", routers=100, rate=1e6), step=3.0)
    listed = alike.change("a", rate=[1e6] * 100)
    assert alike.year()["energy_kwh_mean"] == listed.year()["energy_kwh_mean"]


def test_a_paired_comparison_is_narrower_than_the_difference_of_two_years():
    fleet = one(wl.Site("a", routers=7, rate="2Mpps", traffic="poisson:{rate},size=64"), step=1.5)
    poll, napi = fleet.year(policy="poll"), fleet.year(policy="napi")
    saved = wl.compare(poll, napi)
    difference = poll["energy_kwh_mean"][0] - napi["energy_kwh_mean"][0]
    assert saved["saved_energy_kwh_mean"] == pytest.approx([difference] * 2)
    assert saved["saved_share"][0] == pytest.approx(difference / poll["energy_kwh_mean"][0])
    assert saved["saved_energy_kwh_low"][0] > 0
    width = saved["saved_energy_kwh_high"][0] - saved["saved_energy_kwh_low"][0]
    apart = sum(year["energy_kwh_high"][0] - year["energy_kwh_low"][0] for year in (poll, napi))
    assert width < apart
    nothing = wl.compare(napi, fleet.year(policy="napi"))
    assert {nothing[f"saved_energy_kwh_{end}"][0] for end in ("low", "mean", "high")} == {0.0}
    assert wl.compare(napi, poll)["saved_energy_kwh_mean"][0] == pytest.approx(-difference)


def test_each_site_may_have_a_policy_and_all_add_up():
    fleet = wl.Fleet(
        [wl.Site("a", routers=2, rate="1Mpps"), wl.Site("b", routers=5, rate="0.3Mpps", app="ipsec")],
        **COARSE,
    )
    year = fleet.year(policy={"a": "poll", "b": "queue-length"})
    assert year["site"] == ["a", "b", "total"]
    assert year["policy"] == ["poll", "queue-length", "poll, queue-length"]
    energy = year["energy_kwh_mean"]
    assert energy[2] == pytest.approx(energy[0] + energy[1])
    with pytest.raises(wl.Error, match="the sites are"):
        fleet.year(policy={"a": "poll"})


def test_other_cards_change_the_power_by_their_difference():
    fleet = one(wl.Site("a", routers=1, rate="1Mpps", day=FLAT))
    own = fleet.year(policy="poll")
    report = wl.simulate(policy="poll", traffic="poisson:1Mpps,size=imix", duration="5ms", warmup="5ms")
    cards = report.power_by_component_watts["nic"]
    more = fleet.change("a", cards_watts=cards + 10).year(policy="poll")
    saved = wl.compare(more, own)["saved_energy_kwh_mean"][0]
    assert saved == pytest.approx(10 * 8.76, rel=0.01)


def test_consolidation_keeps_the_traffic_and_shows_what_it_costs():
    site = wl.Site("a", routers=8, rate="2Mpps", day=FLAT, traffic="poisson:{rate},size=64")
    fleet = one(site, step=3.0)
    few = fleet.consolidate("a", routers=2)
    assert few.sites[0].rate == pytest.approx(8e6)
    spread, packed = fleet.year(policy="queue-length"), few.year(policy="queue-length")
    assert wl.compare(spread, packed)["saved_energy_kwh_low"][0] > 0
    assert packed["lost_share"][0] <= 0.01
    # Twice what twelve cores of this server forward: half is lost, and the answer says so.
    beyond = fleet.change("a", routers=1, rate="50Mpps", app="ipsec").year(policy="poll")
    assert beyond["lost_share"][0] > 0.3


def test_a_fleet_is_simulated_once():
    calls = []
    fleet = one(wl.Site("a", routers=1, rate="1Mpps"), step=4.0)
    fleet.year(policy="napi", progress=calls.append)
    assert calls and calls[-1] == 1
    again = []
    fleet.change("a", routers=9).year(policy="napi", progress=again.append)
    assert again == []


def test_policies_in_python_run_in_fleets():
    class Half(wl.Policy):
        def decide(self, view):
            return wl.Setting(cores=6, idle_state="C6", wait="interrupt")

    fleet = one(wl.Site("a", routers=1, rate="0.5Mpps"), step=5.0)
    year = fleet.year(policy=Half)
    assert year["policy"][0] == "Half"
    assert year["energy_kwh_mean"][0] < fleet.year(policy="poll")["energy_kwh_mean"][0]


def test_days_have_their_source_and_their_shape():
    day = wl.Day.built_in()
    assert len(day.samples) == 288 and "PowerSave" in day.source
    assert day.mean == pytest.approx(0.35) and max(day.samples) <= 1
    assert sum(day.shape) / 288 == pytest.approx(1)
    year = one(wl.Site("a", routers=1, rate="1Mpps"), step=5.0).year()
    assert "built in" in year.days["a"] and year.source == "modelled"


@pytest.mark.parametrize(
    ("make", "part"),
    [
        (lambda: wl.Day((), source="x"), "needs samples"),
        (lambda: wl.Day((1, -1), source="x"), "sample=-1: allowed are 0 and more"),
        (lambda: wl.Day(("1", 2), source="x"), "sample='1': it must be a number"),
        (lambda: wl.Day((0, 0), source="x"), "all 0"),
        (lambda: wl.Day.built_in(mean=1.5), "mean=1.5"),
        (lambda: wl.Site("a", routers=0, rate="1Mpps"), "routers=0"),
        (lambda: wl.Site("a", routers="3", rate="1Mpps"), "site 'a': routers='3'"),
        (lambda: wl.Site("a", routers=2, rate=["1", 2]), "site 'a': rate='1': it must be a number"),
        (lambda: wl.Site("a", routers=1, rate=1.0, cards_watts="9"), "cards_watts='9'"),
        (lambda: one(wl.Site("a", routers=1, rate=1.0), step="2"), "step='2': it must be a number"),
        (lambda: one(wl.Site("a", routers=1, rate=1e6)).year(price_per_kwh="1"), "price_per_kwh='1'"),
        (lambda: wl.Site("a", routers=1, rate="1 banana"), "site 'a'.*banana"),
        (lambda: wl.Site("a", routers=2, rate=[1.0]), "1 rates for 2 routers"),
        (lambda: wl.Site("a", routers=1, rate=-1.0), "rate=-1.0"),
        (lambda: wl.Site("a", routers=1, rate=1.0, traffic="poisson:1Mpps"), r"must have \{rate\}"),
        (lambda: wl.Site("a", routers=1, rate=1.0, cards_watts=-1), "cards_watts=-1"),
        (lambda: wl.Fleet([]), "one or more"),
        (lambda: wl.Fleet([wl.Site("total", routers=1, rate=1.0)]), "none 'total'"),
        (lambda: one(wl.Site("a", routers=1, rate=1.0), seeds=[1]), "two different ones"),
        (lambda: one(wl.Site("a", routers=1, rate=1.0), step=1.0), "step=1.0"),
        (lambda: one(wl.Site("a", routers=1, rate=1e6)).change("b"), "no site 'b'"),
        (lambda: one(wl.Site("a", routers=1, rate="60Mpps")).year(), "site 'a'"),
        (lambda: one(wl.Site("a", routers=1, rate=1e6)).year(price_per_kwh=-1), "price_per_kwh=-1"),
        (lambda: one(wl.Site("a", routers=1, rate=1e6)).year(overhead=0.5), "overhead=0.5"),
        (lambda: one(wl.Site("a", routers=1, rate=1e6)).year(policy="nap"), "napi"),
    ],
)
def test_wrong_descriptions_are_refused_by_name(make, part):
    with pytest.raises(wl.Error, match=part):
        make()


def test_years_that_cannot_be_compared_are_refused():
    fleet = one(wl.Site("a", routers=1, rate="1Mpps"), step=5.0)
    year = fleet.year(price_per_kwh=1.0)
    with pytest.raises(wl.Error, match="price"):
        wl.compare(year, fleet.year())
    other = one(wl.Site("a", routers=1, rate="1Mpps"), step=5.0, seeds=[1, 2])
    with pytest.raises(wl.Error, match="seeds"):
        wl.compare(year, other.year(price_per_kwh=1.0))


def test_wrong_names_of_sites_and_fields_say_what_is_allowed():
    fleet = wl.Fleet([wl.Site("core", routers=1, rate="1Mpps"), wl.Site("edge", routers=1, rate="1Mpps")])
    with pytest.raises(wl.Error, match="names one for each site"):
        fleet.year(policy={"edge": "napi"})
    with pytest.raises(wl.Error, match="no 'card_watts'; did you mean 'cards_watts'"):
        fleet.change("core", card_watts=3)


def test_a_policy_or_a_length_that_is_changed_is_simulated_anew():
    class Some(wl.Policy):
        def __init__(self, cores):
            self.cores = cores

        def decide(self, view):
            return wl.Setting(cores=self.cores, wait="poll")

    site = wl.Site("a", routers=1, rate="1Mpps", day=FLAT)
    fleet, policy = one(site), Some(2)
    few = fleet.year(policy=policy)["energy_kwh_mean"]
    policy.cores = 12
    many = fleet.year(policy=policy)["energy_kwh_mean"]
    assert many == pytest.approx(one(site).year(policy=Some(12))["energy_kwh_mean"])
    assert many[0] > 1.2 * few[0]
    # Finished simulations are found by their content.
    seen = []
    assert fleet.year(policy=Some(2), progress=seen.append)["energy_kwh_mean"] == few
    assert not seen
    fleet.duration = "6ms"
    fleet.year(policy=Some(2), progress=seen.append)
    assert seen
