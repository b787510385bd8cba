"""Filters, order, groups and columns of the list of runs."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from trainmark.report.results_table import as_csv, shown_metrics
from trainmark.spec.condition import ConditionError
from trainmark.spec.errors import ConfigError, UnknownNameError
from trainmark.spec.registries import METRICS
from trainmark.spec.result_schema import parse_result
from trainmark.spec.run_facts import COLUMNS, OFTEN_ASKED, facts_of, facts_without_result, known_names
from trainmark.spec.tags import RunTags
from trainmark.store.query import Query, columns_of, split_names
from trainmark.studies.groups import group_runs

STORED = Path(__file__).with_name("stored_results")


def row(run_id: str, **facts: Any) -> dict[str, Any]:
    return {"run_id": run_id, **dict.fromkeys((*COLUMNS, "flops", "vflops")), "tags": [], "damage": [], **facts}


ROWS = [
    row("a", flops=3.0, model="x", members=2, tags=["night"]),
    row("b", flops=None, model="y", members=4),
    row("c", flops=1.0, model="x", members=4),
    row("d", flops=3.0, model=None, members=1, tags=["baseline"]),
]


def ids(query: Query) -> str:
    return "".join(found["run_id"] for found in query.select(ROWS))


def test_rows_are_filtered_by_condition_and_by_equal_columns() -> None:
    assert ids(Query()) == "abcd"
    assert ids(Query("flops >= 3")) == "ad"
    assert ids(Query("not flops >= 3")) == "bc"
    assert ids(Query("tag=night or run=c")) == "ac"
    assert ids(Query(equal={"model": "x", "state": None})) == "ac"
    assert ids(Query("members>2", {"model": "x"})) == "c"


def test_rows_are_sorted_by_several_names_and_gaps_come_last() -> None:
    assert ids(Query(sort=("flops",))) == "cadb"
    assert ids(Query(sort=("-flops",))) == "adcb"  # equal ones stay in their order
    assert ids(Query(sort=("-flops", "members"))) == "dacb"
    assert ids(Query(sort=("model", "-run_id"))) == "cabd"
    assert ids(Query(sort=("tag",))) == "dabc"
    assert ids(Query(sort=("-run",), limit=2)) == "dc"


def test_the_names_that_a_query_needs_are_those_of_facts() -> None:
    query = Query("tag=x and members_finished=members", sort=("-flops",), shown=("run_id", "train.precision"))
    assert query.names == ["tags", "members_finished", "members", "flops", "train.precision"]


def test_an_unknown_name_is_refused_unless_a_run_has_it() -> None:
    rows = [row("a", **{"data.num_train": 200, "data.num_tran": None})]
    Query("data.num_train=200", shown=("train.epochs", "vflops")).check_names(rows)
    with pytest.raises(ConditionError, match=r"at 'data\.num_tran' .* there is no value of this name"):
        Query("data.num_tran=200").check_names(rows)
    with pytest.raises(UnknownNameError, match=r"called 'flop'\. Did you mean 'flops'\?"):
        Query(sort=("-flop",)).check_names([row("a", flop=None)])
    with pytest.raises(UnknownNameError, match=r"called 'mode'\. Did you mean 'model'\?"):
        Query(shown=("mode",)).check_names([row("a", mode=None)])


def test_every_column_metric_and_setting_is_a_known_name() -> None:
    known = known_names()
    assert {"run_id", "tag", "flops", "train.precision", "ensemble.members", "launch.launcher"} <= known
    assert set(METRICS) <= known


def test_what_is_often_asked_for_is_what_the_table_shows() -> None:
    assert (*COLUMNS, *shown_metrics()) == OFTEN_ASKED


def test_names_are_separated_by_commas() -> None:
    assert split_names("a, b.c,a", "--columns") == ("a", "b.c")
    assert split_names("-a", "--sort") == ("-a",)
    assert split_names(None, "--sort") == ()
    for given in ("", "a,,b", "-a", 'a"b', "a b"):
        with pytest.raises(ConfigError, match="which is not a name"):
            split_names(given, "--columns")


def test_facts_of_a_result_are_its_columns_metrics_settings_machine_and_software() -> None:
    result = parse_result((STORED / "of-0.1.0.json").read_bytes())
    facts = facts_of(result, RunTags(tags=("night",), note="why"))
    assert list(facts)[: len(COLUMNS)] == list(COLUMNS)
    assert (facts["tags"], facts["note"], facts["reason"]) == (["night"], "why", None)
    assert facts["flops"] == result.metrics["flops"].value
    assert (facts["train.epochs"], facts["ensemble.workers"]) == (1, 1)
    assert facts["software.torch"] == result.software["torch"]
    assert "software.torch_config" not in facts  # too long for a list
    assert not [name for name, metric in result.metrics.items() if metric.value is None and name in facts]


def test_a_run_that_is_not_complete_has_its_reason() -> None:
    result = parse_result((STORED / "of-0.1.0.json").read_bytes())
    failed = result.members[1].model_copy(update={"state": "failed", "reason": "out of memory"})
    half = result.model_copy(update={"state": "partial", "members": [result.members[0], failed]})
    assert facts_of(half, RunTags())["reason"] == "member 1 failed: out of memory"
    assert facts_without_result("cut off", RunTags())["reason"] == "cut off"


def test_csv_is_that_of_rfc_4180_and_a_failed_run_has_empty_figures_and_its_reason() -> None:
    names = ["run_id", "flops", "tags", "note", "reason"]
    values = [["a", 1.5e9, ["x", "y"], 'say "hi",\nthere', None], ["b", None, [], None, "member 0 failed: killed"]]
    text = as_csv(values, names)
    assert text == (
        'run_id,flops,tags,note,reason\r\na,1500000000.0,x; y,"say ""hi"",\nthere",\r\nb,,,,member 0 failed: killed\r\n'
    )
    assert [*csv.reader(io.StringIO(text, newline=""))][2] == ["b", "", "", "", "member 0 failed: killed"]


def test_a_whole_record_ends_with_what_is_wrong() -> None:
    names = columns_of(["flops"])
    assert names[:3] == ("run_id", "path", "state")
    assert names[-3:] == ("flops", "reason", "damage")
    assert len(set(names)) == len(names)


def test_groups_have_counts_medians_and_intervals() -> None:
    table = group_runs([*ROWS, row("e", flops=9.0, model="x", members=2)], ["model"], ["flops", "members"])
    assert table.rows[0] == {
        "model": "x",
        "runs": 3,
        "flops": 3.0,
        "flops_low": 1.0,
        "flops_high": 9.0,
        "flops_n": 3,
        "members": 2.0,
        "members_low": 2.0,
        "members_high": 4.0,
        "members_n": 3,
    }
    assert [(found["model"], found["runs"], found["flops"], found["flops_n"]) for found in table.rows] == [
        ("x", 3, 3.0, 3),
        ("y", 1, None, 0),
        (None, 1, 3.0, 1),
    ]
    assert table.lines()[0][:3] == ["x", "3", "3 (1 – 9) FLOP/s"]
    assert table.caption.startswith("5 runs in 3 groups; ")


def test_groups_by_several_names_and_by_tags() -> None:
    table = group_runs(ROWS, ["tags", "members"], ["flops"])
    assert [(found["tags"], found["members"]) for found in table.rows] == [
        ("night", 2),
        (None, 4),
        ("baseline", 1),
    ]
