"""The study of variants: which points, and their analysis on written-out results."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.unit.written_outcomes import Figures, outcomes, point
from trainmark.plan.explain import Source
from trainmark.plan.resolve import resolve_config
from trainmark.spec.config import Setting
from trainmark.spec.errors import ConfigError
from trainmark.spec.run_folder import Places
from trainmark.spec.site import NodeGroup, Site, Slot
from trainmark.studies.make import Asked, make_study
from trainmark.studies.outcomes import Outcome, Outcomes, PointOutcomes
from trainmark.studies.point import Point
from trainmark.studies.study import Request, nested
from trainmark.studies.variants import SETTINGS, VARIANTS, interpreter
from trainmark.studies.variants_figures import short_names

TRAINING, INFERENCE = "throughput_samples_per_s", "inference_samples_per_s"
TWO_CORES = Site(
    name="two", groups=(NodeGroup(slots=(Slot(cores=(0,)), Slot(cores=(1,)))),), allocators=("tcmalloc", "jemalloc")
)
HERE = Site(name="here", groups=(NodeGroup(slots=(Slot(cores=(min(os.sched_getaffinity(0)),)),)),))
ONE_GPU = Site(name="gpu", groups=(NodeGroup(slots=(Slot(cores=(0, 1), accelerator=0),)),))


def points(site: Site, size: str = "tiny", **given: tuple[Setting, ...]) -> list[Point]:
    chosen = [Source("test", {"size": size}), Source("the study", nested(VARIANTS.overrides(size)))]
    return VARIANTS.points(Request(site, resolve_config(chosen), given))


def test_all_variants_take_the_default_allocator_and_other_allocators_take_eager() -> None:
    found = [(each.at["variant"], each.at["allocator"]) for each in points(TWO_CORES)]
    assert found == [
        *((name, "tcmalloc") for name in ("eager", "channels-last", "onednn", "torchscript", "inductor", "no-onednn")),
        ("eager", "glibc-tuned"),
        ("eager", "system"),
        ("eager", "jemalloc"),
    ]
    assert {each.at["allocator"] for each in points(ONE_GPU)} == {"glibc-tuned"}


@pytest.mark.parametrize(
    ("variant", "differs"),
    [
        ("channels-last", {"memory_format"}),
        ("onednn", {"memory_format"}),
        ("torchscript", {"compiler"}),
        ("inductor", {"compiler"}),
        ("no-onednn", {"onednn"}),
    ],
)
def test_each_variant_differs_from_eager_in_one_setting(variant: str, differs: set[str]) -> None:
    eager = SETTINGS["eager"]
    changed = {name for name, value in SETTINGS[variant].items() if eager.get(name) != value}
    assert changed == {f"train.torch.{name}" for name in differs}


def test_at_full_size_the_documents_models_train_on_its_datasets_with_their_own_recipes() -> None:
    found = points(
        TWO_CORES, "full", variant=("eager",), allocator=("system",), dataset=("pacs=/data/PACS", "synthetic")
    )
    assert [tuple(each.at.values()) for each in found] == [
        ("eager", "system", model, dataset)
        for dataset in ("pacs", "synthetic")
        for model in ("resnet34", "resnext50-32x4d", "wide-resnet101-2")
    ]
    pacs, synthetic = found[0].settings, found[3].settings
    assert (pacs["size"], pacs["dataset"], pacs["data.path"]) == ("pacs", "pacs", "/data/PACS")
    assert (synthetic["dataset"], synthetic["train.augmentation"]) == ("synthetic", "none")
    assert "size" not in synthetic and "data.path" not in synthetic
    assert VARIANTS.overrides("full")["train.batch_size"] == 128


def test_real_data_that_are_missing_are_a_gap_with_their_reason(tmp_path: Path) -> None:
    sources = [Source("--size", {"size": "full"})]
    axes: dict[str, Any] = {"variant": ("eager",), "model": ("resnet34",), "dataset": ("synthetic", "cifar10")}
    record = make_study(VARIANTS, Asked(sources, {**axes, "allocator": ("system",)}), HERE, Places.of(tmp_path))
    assert record.points[0].refused is None
    assert "data.path is not set" in (record.points[1].refused or "")


def test_real_data_alone_are_refused_without_their_folders_with_the_option_that_names_them(tmp_path: Path) -> None:
    asked = Asked([Source("--size", {"size": "full"})])
    with pytest.raises(ConfigError, match=r"of pacs and cifar10 is not set\. Choose --dataset pacs=DIR,cifar10=DIR"):
        make_study(VARIANTS, asked, HERE, Places.of(tmp_path))


def test_what_accelerators_cannot_do_is_a_gap_with_its_reason(tmp_path: Path) -> None:
    sources = [Source("--launcher", {"launch": {"launcher": "slurm"}})]
    axes = {"variant": ("eager", "onednn", "no-onednn")}
    record = make_study(VARIANTS, Asked(sources, axes), ONE_GPU, Places.of(tmp_path))
    assert [(planned.refused or "").partition(".")[0] for planned in record.points] == [
        "",
        "The oneDNN layout is for CPUs",
        "oneDNN is a library for CPUs, but the site has accelerators",
    ]


@pytest.mark.parametrize(
    ("given", "python"),
    [
        ("/opt/envs/gcc12", "/opt/envs/gcc12/bin/python"),
        ("/opt/envs/gcc12/", "/opt/envs/gcc12/bin/python"),
        ("/opt/python-gcc12", "/opt/python-gcc12/bin/python"),
        ("/opt/envs/gcc12/bin/python3.11", "/opt/envs/gcc12/bin/python3.11"),
        ("python3", "python3"),
    ],
)
def test_an_environment_is_a_folder_or_its_python(given: str, python: str) -> None:
    assert interpreter(given) == python
    (chosen, *_) = points(TWO_CORES, python=(given,))
    assert (chosen.at["python"], chosen.settings["launch.python"]) == (given, python)


def test_without_python_the_plan_chooses_it() -> None:
    assert all("launch.python" not in each.settings and "python" not in each.at for each in points(TWO_CORES))


@pytest.mark.parametrize("pythons", [("this Python", "/opt/envs/gcc12"), ("/opt/envs/gcc12", "this Python")])
def test_this_python_has_a_name_beside_other_builds_and_is_compared_within_itself(pythons: tuple[str, str]) -> None:
    chosen = points(TWO_CORES, python=pythons, variant=("eager", "onednn"), allocator=("system",))
    assert [each.at["python"] for each in chosen] == [name for name in pythons for _ in range(2)]
    assert {each.at["python"] for each in chosen if "launch.python" not in each.settings} == {"this Python"}
    # Eager and oneDNN: 4 and 6 images/s with this Python, 10 and 20 with the other.
    speeds = {"this Python": (4, 6), "/opt/envs/gcc12": (10, 20)}
    found = [point(at.at, [{TRAINING: speeds[str(at.at["python"])][at.at["variant"] == "onednn"]}]) for at in chosen]
    table = VARIANTS.analyse(outcomes(*found))
    gains = {(row["python"], row["variant"]): row["training_over_eager"] for row in table.rows}
    assert gains[pythons[0], "eager"] == gains[pythons[1], "eager"] == 0
    assert (gains["this Python", "onednn"], gains["/opt/envs/gcc12", "onednn"]) == (0.5, 1.0)
    assert table.column("training_over_build").heading == f"training over {pythons[0].rpartition('/')[2]}"


def test_this_python_alone_needs_no_name() -> None:
    assert all("python" not in each.at for each in points(TWO_CORES, python=("this Python",)))


@pytest.mark.parametrize(
    ("pythons", "names"),
    [
        (["/opt/envs/gcc12/bin/python3.11", "/opt/envs/clang18"], ["gcc12", "clang18"]),
        (["this Python", "/opt/gcc12/.venv", "/opt/clang18/.venv/"], ["this Python", "gcc12/.venv", "clang18/.venv"]),
        (["/a/env", "/a/env/bin/python"], ["/a/env", "/a/env/bin/python"]),
    ],
)
def test_builds_are_called_by_as_much_of_their_path_as_tells_them_apart(pythons: list[str], names: list[str]) -> None:
    assert list(short_names(pythons).values()) == names


@pytest.mark.parametrize("datasets", [("pacs=/nvme/PACS", "pacs=/lustre/PACS"), ("pacs", "pacs=/lustre/PACS")])
def test_two_folders_of_one_dataset_are_refused(datasets: tuple[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"^--dataset has pacs more than once\. Compare folders in two studies\.$"):
        points(TWO_CORES, dataset=datasets)


def measured(variant: str, rounds: list[Figures | str], allocator: str = "tcmalloc", **at: Setting) -> PointOutcomes:
    return point({"variant": variant, "allocator": allocator, **at, "model": "resnet34", "dataset": "pacs"}, rounds)


def of_variants() -> Outcomes:
    """Eager drops from 10 to 8 images/s in every other round; oneDNN's layout trains a quarter faster in all."""
    eager: list[Figures | str] = [{TRAINING: 10, INFERENCE: 40}, {TRAINING: 8, INFERENCE: 50}]
    return outcomes(
        measured("eager", eager * 3),
        measured("onednn", [{TRAINING: 12.5, INFERENCE: 42}, {TRAINING: 10, INFERENCE: 52.5}] * 3),
        measured("torchscript", [{TRAINING: 9, INFERENCE: 60}, {TRAINING: 7.2, INFERENCE: 75}] * 3),
        measured("inductor", ["failed: no C++ compiler was found"] * 6),
        measured("eager", [{TRAINING: 9.5, INFERENCE: 36}, {TRAINING: 7.6, INFERENCE: 45}] * 3, allocator="system"),
    )


def test_improvements_are_speed_over_that_of_eager_within_rounds_minus_one() -> None:
    table = VARIANTS.analyse(of_variants())
    assert [row["training_over_eager"] for row in table.rows] == pytest.approx([0, 0.25, -0.1, None, -0.05])
    assert [row["inference_over_eager"] for row in table.rows] == pytest.approx([0, 0.05, 0.5, None, -0.1])
    assert table.rows[3]["note"] == "failed: no C++ compiler was found"
    assert table.column("training_over_eager").heading == "training over eager"
    assert table.findings[:2] == (
        "resnet34 on pacs: fastest in training: onednn (+25 % over eager), 1.25 (1.25 to 1.25) times that of eager",
        "resnet34 on pacs: fastest in inference: torchscript (+50 % over eager), "
        "1.43 (1.43 to 1.43) times that of onednn (+5 % over eager)",
    )


def test_a_variant_that_is_ahead_by_the_noise_alone_is_not_called_the_fastest() -> None:
    eager = measured("eager", [{TRAINING: 10}] * 3)
    other = measured("channels-last", [{TRAINING: speed} for speed in (9, 10.01, 11)])
    assert VARIANTS.analyse(outcomes(eager, other)).findings[0] == (
        "resnet34 on pacs: cannot tell which is fastest in training: "
        "channels-last (+0 % over eager) has 1 (0.9 to 1.1, n = 3) times that of eager"
    )


def test_bars_are_named_by_variant_and_by_allocator_where_that_is_another() -> None:
    (drawn,) = VARIANTS.figures(VARIANTS.analyse(of_variants()))
    (training,), (inference,) = drawn.rows
    (of_training,), (of_inference,) = training.bars, inference.bars
    assert of_training.label == "resnet34"
    assert of_training.names == ("eager", "onednn", "torchscript", "inductor", "system")
    assert of_training.y.tolist() == pytest.approx([0, 25, -10, float("nan"), -5], nan_ok=True)
    assert of_inference.y.tolist() == pytest.approx([0, 5, 50, float("nan"), -10], nan_ok=True)
    assert drawn.svg is not None and "no C++ compiler" in drawn.caption


def built(found: PointOutcomes, **software: str) -> PointOutcomes:
    runs = [
        Outcome(run.round, run.run_id, run.result.model_copy(update={"software": software}) if run.result else None)
        for run in found.runs
    ]
    return PointOutcomes(found.point, tuple(runs))


def of_builds() -> Outcomes:
    """An epoch of the second build takes 20 % less time, which is a quarter more samples per second."""
    old, new = "/envs/arm21", "/envs/arm22/bin/python"
    return outcomes(
        built(measured("eager", [{TRAINING: 4, INFERENCE: 59}], python=old), torch="1.11", torch_blas="armpl 21.0"),
        built(measured("onednn", [{TRAINING: 8, INFERENCE: 50}], python=old), torch="1.11", torch_blas="armpl 21.0"),
        built(measured("eager", [{TRAINING: 5, INFERENCE: 81}], python=new), torch="1.11", torch_blas="armpl 22.0"),
        built(measured("onednn", [{TRAINING: 12, INFERENCE: 75}], python=new), torch="1.11", torch_blas="armpl 22.0"),
    )


def test_builds_are_compared_variant_by_variant_and_variants_within_each_build() -> None:
    table = VARIANTS.analyse(of_builds())
    assert [row["training_over_build"] for row in table.rows] == pytest.approx([0, 0, 0.25, 0.5])
    # CPU-TORCH: 59 → 81 images/s are an improvement of 37.2 %.
    assert table.rows[2]["inference_over_build"] == pytest.approx(0.3729, abs=1e-4)
    assert [row["training_over_eager"] for row in table.rows] == pytest.approx([0, 1.0, 0, 1.4])
    assert table.facts["builds"]["/envs/arm22/bin/python"] == {"torch": "1.11", "torch_blas": "armpl 22.0"}
    assert "/envs/arm21: torch 1.11; BLAS armpl 21.0" in table.findings
    assert (
        "resnet34 on pacs with arm22: cannot tell which is fastest in training: onednn (+140 % over eager) has "
        "2.4 (single run) times that of eager"
    ) in table.findings


def test_builds_have_a_figure_of_their_own_with_bars_named_by_environment() -> None:
    variants, builds = VARIANTS.figures(VARIANTS.analyse(of_builds()))
    ((of_builds_in_training,), _) = builds.rows
    assert [each.label for each in of_builds_in_training.bars] == ["resnet34 with arm21", "resnet34 with arm22"]
    assert of_builds_in_training.bars[1].y.tolist() == pytest.approx([25, 50])
    assert of_builds_in_training.references[0].label == "arm21"
    assert variants.svg is not None and builds.svg is not None


def test_failed_runs_alone_make_a_table_of_gaps_and_no_figure() -> None:
    table = VARIANTS.analyse(outcomes(measured("eager", ["stopped"])))
    assert table.rows[0]["note"] == "stopped"
    (drawn,) = VARIANTS.figures(table)
    assert drawn.svg is None
