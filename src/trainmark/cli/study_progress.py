"""Progress of studies on standard error: which run starts, what it gave, how long the rest will take."""

from trainmark.cli.output import bootstrap_progress, data_progress, live_progress
from trainmark.report.study_progress import StudyProgress
from trainmark.spec.units import counted, show_value
from trainmark.studies.conduct import Ended, Watching, launcher_of
from trainmark.studies.outcomes import Outcome
from trainmark.studies.preview import most_runs
from trainmark.studies.record import PlannedStudyRun, StudyRecord


def watching(progress: StudyProgress) -> Watching:
    """Returns how the progress of a study is shown."""

    def started(record: StudyRecord, run: PlannedStudyRun) -> None:
        label = record.points[run.point].point.label
        number, total = record.runs.index(run), most_runs(record)
        is_bound = total > len(record.runs)
        progress.started(number, total, label, run.round, record.repeats, is_bound=is_bound)

    def ended(record: StudyRecord, ended: Ended) -> None:
        point, left = ended.run.point, [run.point for run in ended.left]
        if launcher_of(record).one_run_at_a_time:
            estimates = [record.points[each].seconds for each in left]
            expected = None if None in estimates else sum(sum(each) / 2 for each in estimates if each)
            progress.ended(point, _text(ended.outcome), ended.seconds, left, expected)
            return
        # Runs end in any order, so the line names its own; they overlap, so their times do not add up.
        label = f"{record.points[point].point.label}, round {ended.run.round}"
        what = f"{counted(len(left), 'run')} left after {label}: {_text(ended.outcome)}"
        progress.ended(point, what, ended.seconds, [], None)

    return Watching(live_progress, data_progress, bootstrap_progress, started, ended)


def _text(outcome: Outcome) -> str:
    """What a run gave, or why it gave nothing."""
    speed = outcome.value("throughput_samples_per_s")
    return outcome.reason or ("done" if speed is None else show_value(speed, "samples/s"))
