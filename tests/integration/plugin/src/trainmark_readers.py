"""A study of a third party, in one file: the example of docs/extending.md."""

from trainmark.report.drawing import Plot
from trainmark.studies.point import Point
from trainmark.studies.study import Axis, Study
from trainmark.studies.tables import build_table, curves, figure, metric

SPEED = "throughput_samples_per_s"
READERS = Axis("readers", "data loader processes", lambda request: [0, 1, 2], setting="launch.loader_workers", least=0)


def _points(request):
    return [
        Point(at={"readers": n}, settings={"launch.loader_workers": n, "ensemble.members": 1})
        for n in READERS.values(request)
    ]


def _figures(table):
    plot = Plot("throughput", "readers", "samples/s", curves(table, "readers", SPEED))
    return [figure(table, "readers", "Data loader processes", "Throughput over readers", [plot])]


STUDY = Study(
    name="readers",
    title="Data loader processes",
    description="throughput over the number of data loader processes",
    documents="our own",
    axes=(READERS,),
    points=_points,
    analyse=lambda outcomes: build_table(outcomes, [metric(SPEED)]),
    figures=_figures,
    settings={"tiny": {"train.steps": 40}, "full": {"train.minutes": 10.0}},
    repeats=5,
)
