"""Progress of studies on standard error: which run starts, what it gave, how long the rest will take."""

from trainmark.cli.output import bootstrap_progress, data_progress, live_progress
from trainmark.report.study_progress import StudyProgress
from trainmark.spec.units import show_value
from trainmark.studies.conduct import Watching
from trainmark.studies.outcomes import Outcome
from trainmark.studies.record import PlannedStudyRun, StudyRecord


def watching(progress: StudyProgress) -> Watching:
    """Returns how the progress of a study is shown."""

    def started(record: StudyRecord, run: PlannedStudyRun) -> None:
        label = record.points[run.point].point.label
        progress.started(record.runs.index(run), len(record.runs), label, run.round, record.repeats)

    def ended(record: StudyRecord, run: PlannedStudyRun, outcome: Outcome, seconds: float) -> None:
        left = [each.point for each in record.runs[record.runs.index(run) + 1 :]]
        estimates = [record.points[point].seconds for point in left]
        expected = None if None in estimates else sum(sum(each) / 2 for each in estimates if each)
        speed = outcome.value("throughput_samples_per_s")
        what = outcome.reason or ("done" if speed is None else show_value(speed, "samples/s"))
        progress.ended(run.point, what, seconds, left, expected)

    return Watching(live_progress, data_progress, bootstrap_progress, started, ended)
