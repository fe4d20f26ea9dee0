"""What machines would say: the allocator's verdict, ceilings, units, the cheapest in time."""

import dataclasses
import itertools

import pytest
import torch
from torch import nn

from colab_helpers import chip_throughput, hardware, memory, plan, platform_facts, published_results
from colab_helpers.plan import estimate_accuracy

CHIPS = hardware.catalog()


def training(width, rows=64, dtype=torch.float32):
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)).to(dtype)

    def loss(count):
        return model(torch.zeros(count, width, dtype=dtype)).float().sum()

    return plan.trace_step(model, loss, rows, torch.optim.AdamW(model.parameters()), foreach=True)


def test_the_whole_menu_is_asked():
    table = plan.estimates(training(256))
    assert [estimate.menu_name for estimate in table] == [
        machine.menu_name for machine in platform_facts.machine_table().by_chip.values()
    ]
    assert all(estimate.fits and 0 < estimate.low <= estimate.high for estimate in table)
    with pytest.raises(KeyError, match="Available: T4"):
        plan.estimates(training(256), ["T5"])


def test_what_does_not_fit_is_refused_with_its_terms():
    large = training(25_000)  # two matrices of 2.5 GB, five times over
    t4, l4, a100 = plan.estimates(large, ["T4", "L4", "A100-40"])
    assert (t4.fits, l4.fits, a100.fits) == (False, False, True)
    assert t4.capacity_bytes == 15360 * 2**20
    overheads = sum(overhead.bytes for overhead in plan.overheads())
    assert t4.reserved_bytes >= large.footprint.peak + overheads


def test_a_step_is_no_faster_than_both_ceilings():
    work = training(4096, rows=4096)
    t4, (quick, slow) = chip_throughput.rates("T4"), estimate_accuracy.measured_over_roofline("T4")
    low, high = plan.seconds_on(work, CHIPS["T4"])
    assert low >= quick * work.flops / t4["fp32"].value
    assert low >= quick * work.bytes_accessed / t4["memory"].value
    assert high >= low * slow / quick
    tiny = training(8, rows=1)
    launches = tiny.num_ops * chip_throughput.rates("H100")["launch"].low
    assert plan.seconds_on(tiny, CHIPS["H100"])[0] == pytest.approx(launches)


@pytest.mark.parametrize("half", [False, True])
def test_a_chip_has_the_factors_of_its_own_published_runs_in_that_precision(half):
    factors = {run.chip: [] for run in estimate_accuracy.runs()}
    for run in estimate_accuracy.runs():
        if run.half == half and run.is_training:
            factors[run.chip].append(run.factor)
    every = [factor for row in factors.values() for factor in row]
    t4 = factors["T4"] or every
    assert estimate_accuracy.measured_over_roofline("T4", half) == (min(t4), max(t4))
    a100 = factors["A100-40"] + factors["A100-80"]
    both = (
        estimate_accuracy.measured_over_roofline("A100-40", half),
        estimate_accuracy.measured_over_roofline("A100-80", half),
    )
    assert both == ((min(a100), max(a100)),) * 2
    assert estimate_accuracy.measured_over_roofline("L4", half) == (min(every), max(every))


def test_the_precision_of_the_step_decides_on_the_factors():
    t4, alike = CHIPS["T4"], estimate_accuracy.measured_over_roofline("T4", half=True)
    work = training(4096, rows=4096, dtype=torch.float16)
    ceiling = sum(plan.roofline_seconds(work, t4).values())
    assert plan.seconds_on(work, t4)[0] == pytest.approx(alike[0] * ceiling)


def test_a_format_that_a_chip_lacks_is_said():
    work = training(512, dtype=torch.bfloat16)
    t4, l4, v5e = plan.estimates(work, ["T4", "L4", "v5e"])
    assert "emulated here: bf16" in t4.note and l4.note == "" and "compiler" in v5e.note
    products = {key: plan.roofline_seconds(work, CHIPS[key])["matmuls"] for key in ("T4", "L4")}
    assert products["T4"] > products["L4"]


def test_convolutions_in_fp32_run_in_tf32_where_there_is_one():
    model = nn.Conv2d(64, 64, 3)
    read = lambda rows: model(torch.zeros(rows, 64, 32, 32))  # noqa: E731
    work = plan.trace_step(model, read, 64, None)
    a100 = CHIPS["A100-40"]
    fp32 = chip_throughput.rates("A100-40")["fp32"].value
    assert plan.roofline_seconds(work, a100)["convolutions"] < work.flops / fp32


def test_a_tpu_launches_one_program():
    tiny = training(8, rows=1)
    assert plan.seconds_on(tiny, CHIPS["v5e"])[0] < plan.seconds_on(tiny, CHIPS["T4"])[0]


def test_hopper_gets_its_larger_workspace():
    context, _, cublas = plan.overheads()
    assert cublas.on(CHIPS["H100"]) > cublas.on(CHIPS["T4"]) > 0 == cublas.on(CHIPS["v5e"])
    assert context.source and context.seen


def test_the_cheapest_is_in_time_and_fits():
    table = plan.estimates(training(2048, rows=2048), ["T4", "L4", "A100-40", "H100"])
    slow = table[0].hours(10**6)[1]
    assert plan.cheapest(table, 10**6, 10 * slow).menu_name == "T4 GPU"  # free
    paid = [dataclasses.replace(estimate, free=False) for estimate in table]
    found = plan.cheapest(paid, 10**6, 10 * slow)
    costs = {
        estimate.menu_name: estimate.units(10**6)[1] for estimate in paid if estimate.units(10**6)
    }
    assert costs[found.menu_name] == min(costs.values()) and "H100 GPU" not in costs
    assert plan.cheapest(table, 10**6, 0) is None
    none_fits = [dataclasses.replace(estimate, fits=False) for estimate in table]
    assert plan.cheapest(none_fits, 1, 1000) is None


def test_the_slow_end_of_a_range_decides():
    [one] = plan.estimates(training(256), ["L4"])
    steady = dataclasses.replace(one, menu_name="steady", low=3.0, high=5.0)
    lucky = dataclasses.replace(one, menu_name="lucky", low=1.0, high=6.0)
    steps, week = 3600, 168
    assert plan.cheapest([lucky, steady], steps, week).menu_name == "steady"
    assert plan.cheapest([lucky], steps, deadline=6) is lucky
    assert plan.cheapest([lucky], steps, deadline=5.9) is None


def test_published_runs_and_their_ceilings_are_on_record():
    assert {run.row for run in estimate_accuracy.runs()} <= set(published_results.all_rows())
    assert all(0.5 < run.factor < 3 for run in estimate_accuracy.runs())


@pytest.mark.parametrize("key", ["T4", "L4", "G4", "A100-40", "H100", "P100", "V100"])
def test_fp64_takes_the_time_of_its_own_units(key):
    single, double = training(2048, rows=2048), training(2048, rows=2048, dtype=torch.float64)
    low, high = plan.seconds_on(double, CHIPS[key])
    slower = CHIPS[key].peak["fp32"] / CHIPS[key].peak["fp64"]
    assert low / plan.seconds_on(single, CHIPS[key])[0] > 0.4 * slower
    assert high < 100 * double.flops / CHIPS[key].peak["fp64"]


def test_a_product_of_4096_in_fp64_takes_a_t4_half_a_second():
    with torch.device("meta"):
        model = nn.Linear(4096, 4096, bias=False).double()
    forward = lambda rows: model(torch.zeros(rows, 4096, dtype=torch.float64))  # noqa: E731
    work = plan.trace_step(model, forward, 4096, None)
    low, high = plan.seconds_on(work, CHIPS["T4"])
    assert low > 2 * 4096**3 / 0.254e12 and high < 3


def test_a_chip_without_fp64_is_refused_for_it():
    work = training(64, dtype=torch.float64)
    with pytest.raises(ValueError, match="TPU v5e has no fp64"):
        plan.seconds_on(work, CHIPS["v5e"])
    tpu, gpu = plan.estimates(work, ["v5e", "T4"])
    assert (tpu.fits, tpu.note) == (False, "no fp64 here: use float32")
    assert gpu.fits and not gpu.note
    assert "not possible" in plan.format_plan(work, [tpu, gpu], 100, deadline=1)


def test_the_margin_is_that_of_every_comparison_without_a_caveat():
    checks = estimate_accuracy.peak_checks()
    assert len(checks) > 100 and len({check.device for check in checks}) >= 3
    plain = [check.error_percent for check in checks if not check.caveat]
    margin = estimate_accuracy.peak_margin()
    assert (margin.lowest_percent, margin.highest_percent) == (min(plain), max(plain))
    assert all(abs(a.error_percent) >= abs(b.error_percent) for a, b in itertools.pairwise(checks))
    assert str(margin) in plan.format_plan(training(64), plan.estimates(training(64), ["T4"]), 1)


def test_trials_on_record_keep_what_the_docs_promise():
    trials = estimate_accuracy.trials()
    assert len({trial.network for trial in trials}) >= 9
    assert len({trial.optimizer for trial in trials}) >= 2
    convolutions = {"CNN", "ResNet with BatchNorm", "U-Net"}  # oneDNN has buffers of its own
    assert (
        max(abs(trial.peak_error_percent) for trial in trials if trial.network not in convolutions)
        < 1
    )
    longer = [trial for trial in trials if trial.time_ratio > 1]
    assert abs(len(longer) - len(trials) / 2) <= 1  # planned without a bias


def test_a_replay_leaves_the_work_as_it_was():
    work = training(256)
    assert work.replay(memory.Allocator(2**40)) == work.replay(memory.Allocator(2**40))
