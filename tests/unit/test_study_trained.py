"""What a study trained, what that took, and the command that repeats it: in table, caption and page."""

import shlex
from dataclasses import replace
from pathlib import Path

from tests.unit.test_report_page import written_config
from tests.unit.test_studies import HERE, made
from tests.unit.written_outcomes import outcomes, point, result
from trainmark.cli.study import _command_of
from trainmark.plan.resolve import parse_setting
from trainmark.spec.plan import Job, Rank
from trainmark.spec.run_folder import Places
from trainmark.spec.table import Table
from trainmark.studies.make import Asked, make_study
from trainmark.studies.outcomes import Outcome, PointOutcomes
from trainmark.studies.point import Point
from trainmark.studies.publish import analyse
from trainmark.studies.record import StudyFolder
from trainmark.studies.tables import build_table, metric
from trainmark.studies.threads import THREADS
from trainmark.studies.trained import describe, named

SPEED, TIME = "throughput_samples_per_s", "time_to_train_all_s"


def trained(batch: int, steps: int, seconds: float, nodes: tuple[str, ...]) -> PointOutcomes:
    found = result({SPEED: 5, TIME: seconds})
    config = written_config("train.precision=fp32", f"train.batch_size={batch}", f"train.steps={steps}")
    job = Job(0, 0, tuple(Rank(number, node, 0, (0,), None) for number, node in enumerate(nodes)))
    changed = found.model_copy(update={"config": config, "plan": replace(found.plan, jobs=(job,))})
    return PointOutcomes(Point(at={"batch": batch}), (Outcome(1, "r1", changed),))


def test_the_table_has_what_was_trained_and_lists_what_differs(tmp_path: Path) -> None:
    found = outcomes(trained(8, 40, 30, ("a",)), trained(16, 40, 60, ("a", "b")))
    table = describe(build_table(found, [metric(SPEED)]), made(tmp_path), found.results)
    kept = Table.model_validate_json(table.as_json()).trained
    assert {
        name: kept[name] for name in ("workload", "size", "dataset", "precision", "batch_per_worker", "length")
    } == {
        "workload": "image-classification",
        "size": "tiny",
        "dataset": "shapes",
        "precision": "fp32",
        "batch_per_worker": [8, 16],
        "length": "40 steps",
    }
    # 30 s on one node and 60 s on two are 150 node-seconds.
    assert kept["training_seconds"] == 90 and round(kept["node_hours"], 6) == round(150 / 3600, 6)
    assert table.caption.startswith(
        f"image-classification (tiny): {kept['model']} on shapes, 40 steps; 2 runs trained for 1 min 30 s in all, "
        "0.042 node-hours; "
    )


def test_many_values_are_counted() -> None:
    assert (named("fp32"), named([1, 2]), named([1, 2, 3, 4, 5])) == ("fp32", "1, 2", "1, 2, 3 and 2 others")


def test_the_command_repeats_the_study(tmp_path: Path) -> None:
    asked = Asked(
        [
            parse_setting(text)
            for text in ("size=tiny", "train.steps=30", "train.decay_at=[1, 2]", "data.num_train=512")
        ],
        {"threads": (1,), "batch": (8, 16)},
        2,
        seed=4,
        site_file="/sites/my cluster.toml",
    )
    record = make_study(THREADS, asked, HERE, Places.of(tmp_path))
    assert record.command == (
        "trainmark study threads --threads 1 --batch 8,16 --size tiny --set train.steps=30 "
        "--set 'train.decay_at=[1, 2]' --set data.num_train=512 --site '/sites/my cluster.toml' --repeats 2 --seed 4"
    )
    words = shlex.split(record.command)[3:]
    again = _command_of(THREADS).make_context("threads", words).params
    assert (again["axis_batch"], again["repeats"], again["seed"]) == (["8,16"], 2, 4)
    settings = [parse_setting(text) for text in again["setting"]]
    assert [each.values for each in settings] == [each.values for each in asked.sources[1:]]


def test_the_page_says_what_was_trained_and_how_to_repeat_it(tmp_path: Path) -> None:
    record = make_study(THREADS, Asked(axes={"threads": (1,), "batch": (8,)}), HERE, Places.of(tmp_path))
    found = outcomes(point({"threads": 1, "interop": 1, "batch": 8}, [{SPEED: 5}]))
    facts = dict(analyse(StudyFolder(tmp_path / "studies" / record.study_id), record, found).facts)
    assert (facts["dataset"], facts["precision"], facts["seed"]) == ("shapes", "fp32", "1")
    assert facts["command"] == "trainmark study threads --threads 1 --batch 8 --repeats 5 --seed 1"
