"""Time and memory of a run are estimated before it begins, as ranges that name what they assume."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.test_report_page import written_config, written_result
from trainmark.machine.topology import read_topology
from trainmark.plan.estimate import assumed_speed, estimate_run, measured_speed
from trainmark.plan.make import make_plan
from trainmark.plan.resolve import parse_setting, resolve_config
from trainmark.report.plan_text import estimate_lines, show_range
from trainmark.spec.errors import ConfigError
from trainmark.spec.result import Metric
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.site import NodeGroup, Site, Slot
from trainmark.spec.status import Estimate, Spread, StoredSpeed
from trainmark.spec.workload import DataFacts
from trainmark.store.speed import newest_speed
from trainmark.workloads.cost import cost_of

TWO_CORES = Site(name="s", groups=(NodeGroup(slots=(Slot(cores=(0,)), Slot(cores=(1,)))),))
R50 = "dataset=synthetic model=resnet50-v1.5"


def estimate(settings: str, stored: StoredSpeed | None, site: Site = TWO_CORES) -> tuple[Estimate, list[str]]:
    """The estimate and its lines, for data as the settings say."""
    config, plan = make_plan(resolve_config([parse_setting(each) for each in settings.split()]), site)
    shape = (3, 224, 224) if "resnet50" in settings else (3, 32, 32)
    found = estimate_run(config, plan, site, DataFacts(int(config.data["num_train"]), 0, 10, shape), stored)
    return found, list(estimate_lines(found, config, plan))


def test_seconds_are_flop_over_what_the_cores_gave_before() -> None:
    # 320 samples × 24.3 GFLOP = 7776 GFLOP on one core at 20 % of 100 GFLOP/s, ± 30 %, and 4 to 15 s to start.
    stored = StoredSpeed("before", ceiling_flops=100e9, share=0.2)
    few = "data.num_train=320 train.epochs=1"
    found, lines = estimate(f"{R50} {few}", stored)
    assert found.seconds == pytest.approx((4 + 7776 / 26, 15 + 7776 / 14), rel=1e-3)
    assert lines[0] == (
        "estimated time: about 5.1–9.5 min (this model reached 20% of 100 GFLOP/s per core, measured by run before)"
    )
    # Four members on two slots follow each other in two waves; one member alone has both cores.
    waves, _ = estimate(f"{R50} {few} ensemble.members=4", stored)
    assert waves.seconds == pytest.approx((2 * (4 + 7776 / 26), 2 * (15 + 7776 / 14)), rel=1e-3)
    alone, _ = estimate(f"{R50} {few} ensemble.members=1", stored)
    assert alone.seconds == pytest.approx((4 + 7776 / 52, 15 + 7776 / 28), rel=1e-3)
    # Inference adds 10 s and 2 s of warm-up for each of two batch sizes.
    timed, _ = estimate(f"{R50} {few} measure.inference=true measure.inference_seconds=10", stored)
    assert timed.seconds == pytest.approx((4 + 24 + 7776 / 26, 15 + 24 + 7776 / 14), rel=1e-3)


def test_memory_is_weights_optimizer_state_and_activations() -> None:
    found, lines = estimate(f"{R50} train.batch_size=8", None)
    # 25.6 million weights × 4 bytes × (weights, gradients, momentum); 8 × 87 MB at the peak of a pass, × 1 to 3.1 by
    # the heap of glibc-tuned, 1.75 as a rule.
    weights, live = 4 * 25_557_032 * 3, 8 * 86_712_128
    assert found.worker_bytes == pytest.approx(
        (0.25 * 2**30 + weights + live, 0.31 * 2**30 + weights + 1.75 * live, 0.55 * 2**30 + weights + 3.1 * live)
    )
    assert lines[1].startswith("estimated memory: about 1.7 GiB (1.2–2.8) per worker, 2 workers at a time; ")
    adam, _ = estimate(f"{R50} train.batch_size=8 train.optimizer=adam", None)
    assert adam.worker_bytes is not None and found.worker_bytes is not None
    assert adam.worker_bytes[0] - found.worker_bytes[0] == pytest.approx(4 * 25_557_032)


def test_a_run_of_hours_says_how_a_few_steps_are_measured_instead() -> None:
    found, lines = estimate(R50, StoredSpeed("before", 100e9, 0.2))
    assert found.seconds is not None and found.seconds[1] > 3600
    assert lines[2] == (
        "! This may take longer than an hour. To measure speed only, 40 steps suffice: "
        "--members 2 --set train.epochs=1 --set data.num_train=1280."
    )


def test_workers_that_do_not_fit_into_memory_are_warned_of() -> None:
    config, plan = make_plan(resolve_config([]), TWO_CORES)
    few, enough, much = (
        Estimate(None, Spread(1e9, 1.5e9, 2e9), "", 2, available) for available in (10**9, 3 * 10**9, 10**10)
    )
    said = [list(estimate_lines(each, config, plan))[2:] for each in (few, enough, much)]
    assert said[0][0].startswith("! The workers will run out of memory. Choose a smaller --set train.batch_size")
    assert said[1][0].startswith("! Memory may not suffice.")
    assert said[2] == []
    limited = Estimate(None, Spread(1e9, 1.5 * 2**30, 2e9), "", 2, None, limit_bytes=2**30)
    (line,) = list(estimate_lines(limited, config, plan))[2:]
    assert line.startswith("! A worker is expected to need 1.5 GiB, more than its limit of 1 GiB.")


def test_what_is_not_tabulated_is_unknown_and_says_why() -> None:
    odd, lines = estimate("model_settings.width=40", None)
    assert (odd.seconds, odd.worker_bytes) == (None, None)
    assert lines == [
        "estimated time: unknown until the first steps "
        "(the cost of resnet-tiny with these settings and data is not tabulated)",
        "estimated memory: unknown",
    ]
    gpu = Site(name="g", groups=(NodeGroup(slots=(Slot(cores=(0,), accelerator=0),)),))
    on_gpu, lines = estimate("train.torch.compiler=none", None, gpu)
    assert on_gpu.seconds is None and on_gpu.worker_bytes is not None
    assert "unknown until the first steps (the speed of accelerators is not tabulated)" in lines[0]


def test_costs_grow_with_the_area_of_images() -> None:
    large, small = (cost_of("resnet18", {}, (3, side, side)) for side in (224, 112))
    assert large is not None and small is not None
    assert small.gflop == pytest.approx(large.gflop / 4) and small.parameters == large.parameters
    assert cost_of("unheard-of", {}, (3, 8, 8)) is None
    assert cost_of("resnet18", {}, None) is None


def test_an_assumed_speed_names_what_it_assumes() -> None:
    assert assumed_speed(["avx2", "avx512f"]).basis == "assuming 12–50 % of 150 GFLOP/s per core (avx512f)"
    assert assumed_speed([]).ceiling_flops < assumed_speed(["avx2"]).ceiling_flops
    assert measured_speed(StoredSpeed("r", 9e9, None)).basis == (
        "assuming 12–50 % of 9 GFLOP/s per core, measured by run r"
    )


def test_ranges_are_shown_in_the_unit_that_fits() -> None:
    assert [show_range(each) for each in ((31_000, 74_000), (70, 300), (12.3, 45.6), (5, 5))] == [
        *("about 8.6–21 h", "about 1.2–5 min", "about 12–46 s", "about 5 s"),
    ]


def test_the_newest_run_of_this_machine_tells_its_speed_rather_one_of_the_same_model(tmp_path: Path) -> None:
    def store(name: str, model: str, **machine: Any) -> None:
        folder = RunFolder(tmp_path / name)
        folder.path.mkdir()
        folder.plan.write_text("{}")
        metrics = {
            "ceiling_flops": Metric(
                value=300e9,
                unit="FLOP/s",
                better="neither",
                status="measured",
                detail={"precision": "fp32"},
            ),
            "flops_share_of_ceiling": Metric(value=0.25, unit="share", better="higher", status="measured"),
        }
        about = {"cpu": read_topology().cpu_model, **machine}
        result = written_result(
            run_id=name,
            members=[],
            metrics=metrics,
            plan=make_plan(resolve_config([]), TWO_CORES)[1],
            machine=about,
            config=written_config(f"model={model}"),
            software={"device": "cpu"},
        )
        folder.result.write_text(result.as_json())

    config, _ = make_plan(resolve_config([]), TWO_CORES)
    assert newest_speed(tmp_path, config) is None
    store("1", "resnet-tiny")
    store("2", "resnet18")
    store("3", "resnet-tiny", cpu="another")
    assert newest_speed(tmp_path, config) == StoredSpeed("1", 150e9, 0.25)
    other = config.model_copy(update={"model": "vgg16"})
    assert newest_speed(tmp_path, other) == StoredSpeed("2", 150e9, None)


def test_a_run_of_minutes_takes_at_least_as_long() -> None:
    # A step of 9 samples × 24.3 GFLOP takes 36.5 s at 6 % of 100 GFLOP/s: the first that ends after ten minutes counts.
    slow = StoredSpeed("before", ceiling_flops=100e9, share=0.06)
    for batch in (7, 8, 9):
        found, _ = estimate(f"{R50} train.minutes=10 train.batch_size={batch} ensemble.members=2", slow)
        assert found.seconds is not None and found.seconds[0] >= 600 + 4


def test_compiling_takes_its_time_in_each_wave() -> None:
    settings = "model=resnet-tiny train.epochs=1 ensemble.members=4"  # two waves on two cores
    plain, _ = estimate(f"{settings} train.torch.compiler=none", None)
    compiled, _ = estimate(f"{settings} train.torch.compiler=inductor", None)
    assert plain.seconds is not None and compiled.seconds is not None
    assert compiled.seconds[0] - plain.seconds[0] == pytest.approx(2 * 10)
    assert compiled.seconds[1] - plain.seconds[1] == pytest.approx(2 * 90)


def test_the_advice_for_speed_alone_can_be_followed_where_the_recipe_augments() -> None:
    with pytest.raises(ConfigError) as refused:
        resolve_config([parse_setting("size=full")])
    advice = str(refused.value).partition("to measure speed alone, ")[2].removesuffix(".")
    assert "--set train.augmentation=none" in advice
    followed = [parse_setting(each) for each in advice.replace("--set ", "").split()]
    assert make_plan(resolve_config([parse_setting("size=full"), *followed]), TWO_CORES)
