"""The study `nodes`: Table 13 of the thesis, gaps, findings and figures from written-out results."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.written_outcomes import outcomes, point
from trainmark.plan.explain import Source
from trainmark.plan.resolve import resolve_config
from trainmark.report.bars import HeatMap
from trainmark.report.drawing import Plot
from trainmark.spec.errors import ConfigError
from trainmark.spec.run_folder import Places
from trainmark.spec.site import NodeGroup, Site, Slot
from trainmark.spec.table import Table
from trainmark.studies.make import Asked, make_study
from trainmark.studies.nodes import NODES
from trainmark.studies.study import Request

SPEED = "throughput_samples_per_s"
COUNTS = (1, 2, 4, 8, 16)
# TF-HPC Table 13: relative efficiencies by machine, data and model.
TABLE_13 = {
    "MareNostrum4": {
        ("synthetic", "alexnet"): (1.00, 0.80, 0.66, 0.62, 0.61),
        ("real", "alexnet"): (1.00, 0.98, 0.97, 0.95, 0.94),
        ("synthetic", "resnet50-v1"): (1.00, 0.88, 0.73, 0.63, 0.61),
        ("real", "resnet50-v1"): (1.00, 0.75, 0.75, 0.56, 0.43),
    },
    "Power9": {
        ("synthetic", "alexnet"): (1.00, 0.90, 0.88, 0.88, 0.87),
        ("real", "alexnet"): (1.00, 0.99, 0.98, 0.97, 0.98),
        ("synthetic", "resnet50-v1"): (1.00, 0.97, 0.96, 0.73, 0.71),
        ("real", "resnet50-v1"): (1.00, 0.97, 0.96, 0.73, 0.72),
    },
    "Dibona": {
        ("synthetic", "alexnet"): (1.00, 0.90, 0.90, 0.89, 0.86),
        ("real", "alexnet"): (1.00, 0.93, 0.91, 0.90, 0.89),
        ("synthetic", "resnet50-v1"): (1.00, 0.99, 0.98, 0.98, 0.98),
        ("real", "resnet50-v1"): (1.00, 1.00, 0.99, 0.99, 0.99),
    },
}


def table_of(machine: str) -> Table:
    """Analyses P_i = E_i · i · 100 images/s, on a machine that is half as fast in the second round."""
    points = [
        point(
            {"nodes": nodes, "data": data, "model": model},
            [{SPEED: share * nodes * 100.0 * drift} for drift in (1.0, 0.5)],
        )
        for (data, model), shares in TABLE_13[machine].items()
        for nodes, share in zip(COUNTS, shares, strict=True)
    ]
    return NODES.analyse(outcomes(*points))


def cluster(nodes: int = 16, slots: int = 2) -> Site:
    return Site(name="c", groups=(NodeGroup(count=nodes, slots=tuple(Slot(cores=(i,)) for i in range(slots))),))


def request(site: Site, **given: Any) -> Request:
    return Request(site, resolve_config([]), given)


@pytest.mark.parametrize("machine", list(TABLE_13))
def test_the_efficiencies_of_table_13_follow_from_its_throughputs(machine: str) -> None:
    table = table_of(machine)
    for (data, model), shares in TABLE_13[machine].items():
        found = [row["efficiency"] for row in table.where(data=data, model=model)]
        assert found == pytest.approx(shares)


def test_the_worst_and_the_best_efficiency_on_16_nodes_are_found() -> None:
    assert table_of("MareNostrum4").findings == (
        "on 16 nodes the efficiency E is 0.43 (0.43 to 0.43, n = 2) for resnet50-v1, real data "
        "to 0.94 (0.94 to 0.94, n = 2) for alexnet, real data",
    )
    assert "to 0.99 (0.99 to 0.99, n = 2) for resnet50-v1, real data" in table_of("Dibona").findings[0]


def test_without_a_result_on_the_fewest_nodes_the_next_are_the_base_and_named() -> None:
    at = {"data": "real", "model": "alexnet"}
    failed, two = point({"nodes": 1, **at}, ["failed"]), point({"nodes": 2, **at}, [{SPEED: 200.0}])
    four = point({"nodes": 4, **at}, [{SPEED: 300.0}])
    table = NODES.analyse(outcomes(failed, two, four))
    # From two nodes on, per node: 300 / (200 · 4 / 2).
    assert [row["efficiency"] for row in table.rows] == [None, 1.0, 0.75]
    assert table.findings == ("on 4 nodes the efficiency E is 0.75 (single run) for alexnet, real data, from 2 nodes",)
    assert table.rows[2]["note"].startswith("efficiency E from nodes 2")  # type: ignore[union-attr]
    # What was not asked for is not missed.
    table = NODES.analyse(outcomes(two, four))
    assert [row["efficiency"] for row in table.rows] == [1.0, 0.75]
    assert table.findings == ("on 4 nodes the efficiency E is 0.75 (single run) for alexnet, real data",)


def test_the_efficiency_of_a_base_which_is_1_by_definition_is_no_finding() -> None:
    real, synthetic = {"data": "real", "model": "alexnet"}, {"data": "synthetic", "model": "alexnet"}
    found = [point({"nodes": nodes, **real}, [{SPEED: speed}]) for nodes, speed in ((1, 100.0), (2, 150.0))]
    alone = [point({"nodes": 1, **synthetic}, ["failed"]), point({"nodes": 2, **synthetic}, [{SPEED: 10.0}])]
    assert NODES.analyse(outcomes(*found, *alone)).findings == (
        "on 2 nodes the efficiency E is 0.75 (single run) for alexnet, real data",
    )
    assert NODES.analyse(outcomes(*alone)).findings == ()


def test_figures_have_a_curve_with_its_ideal_line_per_data_and_a_heat_map_per_model() -> None:
    speed, efficiency = NODES.figures(table_of("MareNostrum4"))
    ((alexnet, resnet),) = speed.rows
    assert isinstance(alexnet, Plot) and isinstance(resnet, Plot)
    assert [each.label for each in alexnet.curves] == ["synthetic data", "real data"]
    # The ideal line starts at the median of both rounds on one node: 75 images/s.
    assert [list(map(float, line.y)) for line in resnet.references] == [[75, 150, 300, 600, 1200]] * 2  # type: ignore[arg-type]
    maps = [row[0] for row in efficiency.rows]
    assert [each.title for each in maps if isinstance(each, HeatMap)] == ["alexnet", "resnet50-v1"]
    assert isinstance(maps[1], HeatMap) and maps[1].values[1].tolist() == pytest.approx([1, 0.75, 0.75, 0.56, 0.43])
    assert maps[1].span == (0.0, 1.0)
    assert speed.svg is not None and efficiency.svg is not None


def test_a_point_is_one_member_on_all_slots_of_its_nodes() -> None:
    points = NODES.points(request(cluster(), data=("real",)))
    assert [each.at["nodes"] for each in points] == [1, 2, 4, 8, 16]
    assert [each.settings["ensemble.workers"] for each in points] == [2, 4, 8, 16, 32]
    assert {each.settings["ensemble.members"] for each in points} == {1}


def test_synthetic_data_beside_real_ones_have_their_shape_and_classes() -> None:
    synthetic, real = NODES.points(request(cluster(1), model=("resnet18",)))
    shape = {"data.channels": 3, "data.height": 32, "data.width": 32, "data.num_classes": 10}
    assert synthetic.settings.items() >= {"dataset": "synthetic", **shape}.items()
    assert "dataset" not in real.settings
    (alone,) = NODES.points(request(cluster(1), model=("resnet18",), data=("synthetic",)))
    assert not any(name.startswith("data.") for name in alone.settings)


def test_at_full_size_alexnet_stands_beside_resnet50() -> None:
    base = resolve_config([Source("test", {"size": "full", "data": {"path": "/data"}})])
    assert NODES.axis("model").values(Request(cluster(), base)) == ("alexnet", "resnet50-v1.5")
    assert NODES.axis("model").values(request(cluster())) == ("resnet-tiny",)


def test_more_nodes_than_the_site_has_are_a_gap_and_a_path_of_real_data_does_not_hinder_synthetic_ones(
    tmp_path: Path,
) -> None:
    sources = [Source("--set data.path", {"dataset": "cifar10", "data": {"path": str(tmp_path / "no-data")}})]
    site = Site(name="c", groups=(NodeGroup(count=2, slots=(Slot(cores=(0,)),)),))
    asked = Asked(sources, {"nodes": (1, 2, 4)})
    record = make_study(NODES, asked, site, Places.of(tmp_path / "runs"))
    refused = {each.point.label: each.refused for each in record.points}
    assert refused["nodes=1 data=synthetic model=resnet-tiny"] is None
    assert "does not fit: site 'c' has 2 identical worker slots" in str(
        refused["nodes=4 data=synthetic model=resnet-tiny"]
    )
    assert "no-data" in str(refused["nodes=1 data=real model=resnet-tiny"])


def test_real_data_of_a_synthetic_dataset_are_refused() -> None:
    base = resolve_config([Source("test", {"dataset": "synthetic"})])
    with pytest.raises(ConfigError, match="--data real needs real data, but the dataset is 'synthetic'"):
        NODES.points(Request(cluster(), base, {"data": ("real",)}))
