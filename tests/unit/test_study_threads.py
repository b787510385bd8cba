"""The study `threads` on written-out results: e = p_t / (t · p_1) and the best batch for each number of threads."""

from tests.unit.written_outcomes import outcomes, point
from trainmark.plan.resolve import resolve_config
from trainmark.report.drawing import Plot
from trainmark.spec.config import Setting
from trainmark.spec.site import NodeGroup, Site, Slot
from trainmark.spec.table import Table
from trainmark.studies.study import Request
from trainmark.studies.threads import THREADS

SPEED = "throughput_samples_per_s"


def written_table() -> Table:
    # Samples/s in five rounds: all but the first are slower as a whole, which ratios within rounds do not see.
    measured = {(1, 32): 100, (2, 32): 180, (4, 32): 200, (1, 64): 110, (2, 64): 165, (4, 64): 352}
    rounds = (1, 0.8, 0.9, 0.9, 0.8)
    found = [
        point({"threads": threads, "interop": 1, "batch": batch}, [{SPEED: speed * slow} for slow in rounds])
        for (threads, batch), speed in measured.items()
    ]
    refused = point({"threads": 8, "interop": 1, "batch": 64}, [], refused="the node has 4 cores")
    return THREADS.analyse(outcomes(*found, refused))


def test_efficiency_is_speed_per_thread_over_that_of_one_thread_at_the_same_batch() -> None:
    found = {(row["threads"], row["batch"]): row["efficiency"] for row in written_table().rows}
    # 180 / (2 · 100), 200 / (4 · 100), 165 / (2 · 110), 352 / (4 · 110).
    assert {key: value and round(float(value), 9) for key, value in found.items()} == {
        (1, 32): 1,
        (2, 32): 0.9,
        (4, 32): 0.5,
        (1, 64): 1,
        (2, 64): 0.75,
        (4, 64): 0.8,
        (8, 64): None,
    }


def test_without_a_result_of_one_thread_the_fewest_threads_are_the_base() -> None:
    found = [
        point({"threads": threads, "interop": 1, "batch": 32}, [{SPEED: speed, "step_time_s": 0.1}])
        for threads, speed in ((2, 100), (4, 150))
    ]
    failed = point({"threads": 1, "interop": 1, "batch": 32}, ["killed"])
    table = THREADS.analyse(outcomes(failed, *found))
    assert [row["efficiency"] for row in table.rows] == [None, 1, 0.75]
    assert [row["note"] for row in table.rows] == ["killed", *["efficiency e from threads 2"] * 2]


def test_each_number_of_threads_has_its_best_batch() -> None:
    assert written_table().findings[2:] == (
        "best batch with 1 thread: 64 (99 samples/s), 1.1 (1.1 to 1.1) times that of 32 (90 samples/s)",
        "best batch with 2 threads: 32 (162 samples/s), 1.09 (1.09 to 1.09) times that of 64 (148.5 samples/s)",
        "best batch with 4 threads: 64 (316.8 samples/s), 1.76 (1.76 to 1.76) times that of 32 (180 samples/s)",
    )


def test_each_batch_has_its_best_number_of_threads() -> None:
    assert written_table().findings[:2] == (
        "best number of threads at batch 32: 4 threads (180 samples/s), 1.11 (1.11 to 1.11) times that of "
        "2 threads (162 samples/s)",
        "best number of threads at batch 64: 4 threads (316.8 samples/s), 2.13 (2.13 to 2.13) times that of "
        "2 threads (148.5 samples/s)",
    )


def test_a_best_batch_inside_the_noise_cannot_be_told_and_several_inter_op_threads_are_named() -> None:
    speeds = {(1, 32): (90, 110, 100), (2, 32): (80, 80, 80), (1, 64): (70, 70, 70), (2, 64): (100, 100, 101)}
    found = [
        point({"threads": 4, "interop": interop, "batch": batch}, [{SPEED: speed} for speed in of_point])
        for (interop, batch), of_point in speeds.items()
    ]
    assert THREADS.analyse(outcomes(*found)).findings == (
        "cannot tell the best batch with 4 threads: 32 with 1 inter-op thread (100 samples/s) has "
        "0.99 (0.9 to 1.1, n = 3) times that of 64 with 2 inter-op threads (100 samples/s)",
    )


def test_a_figure_per_number_of_inter_op_threads_has_a_curve_per_batch_and_the_ideal() -> None:
    (figure,) = THREADS.figures(written_table())
    speed, efficiency = figure.rows[0]
    assert isinstance(speed, Plot) and isinstance(efficiency, Plot)
    assert [curve.label for curve in speed.curves] == ["batch 32", "batch 64"]
    assert [curve.x.tolist() for curve in speed.curves] == [[1, 2, 4], [1, 2, 4]]
    assert [line.y for line in efficiency.references] == [1.0]
    assert "the node has 4 cores" in figure.caption


def test_threads_go_up_to_the_cores_of_a_node_and_with_accelerators_of_a_slot() -> None:
    def threads_on(*slots: Slot) -> tuple[Setting, ...]:
        site = Site(name="s", groups=(NodeGroup(slots=slots),))
        return THREADS.axis("threads").values(Request(site, resolve_config([])))

    assert threads_on(Slot(cores=(0, 1)), Slot(cores=(2, 3))) == (1, 2, 4)
    assert threads_on(Slot(cores=(0, 1), accelerator=0), Slot(cores=(2, 3), accelerator=1)) == (1, 2)
