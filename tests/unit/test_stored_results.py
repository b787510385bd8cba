"""Results on disk, of this version and of earlier ones, are read into typed records and written as they were."""

import json
from pathlib import Path
from typing import Any

import pytest

from trainmark.report.result_table import head_lines
from trainmark.spec import result_schema
from trainmark.spec.config import RunConfig
from trainmark.spec.errors import RunNotFoundError
from trainmark.spec.plan import Plan
from trainmark.spec.result import Result
from trainmark.spec.run_facts import facts_of
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.tags import RunTags
from trainmark.store.runs import keep_earlier_result, read_result

STORED = Path(__file__).with_name("stored_results")


def stored(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((STORED / name).read_text())
    return found


def folder_with(tmp_path: Path, record: dict[str, Any]) -> RunFolder:
    """A run's folder that has such a Result, and as many attempts as it says."""
    folder = RunFolder(tmp_path)
    for member in record["members"]:
        folder.attempt(member["member"], member["attempts"]).path.mkdir(parents=True)
    folder.result.write_text(json.dumps(record))
    return folder


def test_config_and_plan_of_a_stored_result_are_records(tmp_path: Path) -> None:
    result = read_result(folder_with(tmp_path, stored("of-0.1.0.json")))
    assert result is not None
    assert isinstance(result.config, RunConfig)
    assert (result.config.model, result.config.train.epochs, result.config.train.learning_rate) == (
        "resnet-tiny",
        1,
        0.05,
    )
    assert isinstance(result.plan, Plan)
    assert (result.plan.members, result.plan.lanes, result.plan.cores_used) == (2, 2, 2)
    assert [rank.cores for job in result.plan.jobs for rank in job.ranks] == [(0,), (1,)]


def test_a_result_is_written_as_it_was_stored() -> None:
    text = (STORED / "of-0.1.0.json").read_text()
    before, after = json.loads(text), json.loads(Result.model_validate_json(text).as_json())
    assert list(after) == list(before)
    assert {**after, "config": None} == {**before, "config": None}
    assert list(after["plan"]) == list(before["plan"])
    assert after["config"]["train"]["epochs"] == 1  # nested, and without settings that are not set
    assert None not in after["config"]["launch"].values()
    assert Result.model_validate(after) == Result.model_validate_json(text)


def test_an_older_result_without_cores_and_newer_settings_is_read_listed_and_shown(tmp_path: Path) -> None:
    older = stored("older.json")
    assert "cores" not in older["plan"]
    result = read_result(folder_with(tmp_path, older))
    assert result is not None
    assert (result.plan.slots, result.plan.cores, result.plan.cores_used) == (2, None, 2)
    assert facts_of(result, RunTags())["precision"] == "fp32"
    assert head_lines(result)[1] == (
        "2 members × 1 worker = system scale 2, 2 members at a time on Intel(R) Xeon(R) Processor: "
        "2 of 2 worker slots used"
    )


@pytest.mark.parametrize(
    ("part", "name", "value", "words"),
    [
        ("config", "wings", 2, "config.wings is unknown"),
        ("config", "seed", "one", "config.seed must be a whole number"),
        ("config", "model", None, "config.model is missing"),
        ("plan", "lanes", None, "plan is missing 'lanes'"),
        ("plan", "mapping", 7, "plan must be a plan"),
    ],
)
def test_a_stored_result_that_cannot_be_read_names_the_field(
    tmp_path: Path, part: str, name: str, value: Any, words: str
) -> None:
    record = stored("of-0.1.0.json")
    record[part][name] = value
    if value is None:
        del record[part][name]
    with pytest.raises(RunNotFoundError, match="cannot be read as a Result: ") as error:
        read_result(folder_with(tmp_path, record))
    assert words in str(error.value)


def test_a_result_of_an_older_schema_is_migrated_on_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rename(record: dict[str, Any]) -> dict[str, Any]:
        return {**{key: value for key, value in record.items() if key != "scale"}, "size": record["scale"]}

    monkeypatch.setattr(result_schema, "MIGRATIONS", {0: rename})
    record = stored("of-0.1.0.json")
    old = {**record, "schema": "trainmark.result/0", "scale": record["size"]}
    del old["size"]
    assert read_result(folder_with(tmp_path, old)) == Result.model_validate_json(json.dumps(record))


def test_migrations_of_several_steps_are_applied_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    record = stored("of-0.1.0.json")
    monkeypatch.setattr(result_schema, "newest_schema", lambda: 3)
    migrations = {
        1: lambda record: {**record, "kind": record["size"]},
        2: lambda record: {**record, "size": record["kind"] * 2},
    }
    monkeypatch.setattr(result_schema, "MIGRATIONS", migrations)
    seen: list[dict[str, Any]] = []

    class Reads:
        @staticmethod
        def model_validate_json(text: str) -> None:
            seen.append(json.loads(text))

    monkeypatch.setattr(result_schema, "Result", Reads)
    result_schema.parse_result(json.dumps(record).encode())
    assert seen == [{**record, "schema": "trainmark.result/3", "kind": "tiny", "size": "tinytiny"}]


def test_there_is_a_migration_from_every_schema_since_the_first() -> None:
    assert sorted(result_schema.MIGRATIONS) == list(range(1, result_schema.newest_schema()))


def test_a_newer_schema_is_refused_by_name(tmp_path: Path) -> None:
    record = stored("of-0.1.0.json") | {"schema": "trainmark.result/12"}
    with pytest.raises(RunNotFoundError) as error:
        read_result(folder_with(tmp_path, record))
    assert str(error.value) == (
        f"{tmp_path}/result.json cannot be read: its schema is trainmark.result/12, but this version of trainmark "
        "reads up to trainmark.result/1. Update trainmark."
    )


def test_a_newer_result_is_kept_when_the_run_is_collected_again(tmp_path: Path) -> None:
    new = Result.model_validate_json((STORED / "of-0.1.0.json").read_bytes())
    folder = folder_with(tmp_path, stored("of-0.1.0.json") | {"schema": "trainmark.result/2"})
    kept = keep_earlier_result(folder, new)
    assert kept.warnings[0] == "the Result stored earlier cannot be read; it is kept as result-1.json"
    assert folder.earlier_result(1).exists()
