"""Time to train all members (MLPerf HPC's TTTa): last run_stop minus first run_start."""

from trainmark.collect.measured import Measured
from trainmark.collect.reasons import NO_MEMBER, NOT_OVER
from trainmark.spec.events import RunStart, RunStop
from trainmark.spec.result import Better, Metric, unavailable

UNIT = "s"
BETTER: Better = "lower"
NEEDS = "the end"


def compute(measured: Measured) -> Metric:
    """Time to train all members (MLPerf HPC's TTTa): last run_stop minus first run_start, evaluations included."""
    if not measured.finished:
        return unavailable(UNIT, BETTER, NO_MEMBER)
    again = [str(member.job.member) for member in measured.members if member.attempts > 1]
    if again:
        return unavailable(
            UNIT,
            BETTER,
            f"member{'s' * (len(again) > 1)} {', '.join(again)} needed several attempts, whose timings are never mixed",
        )
    if not measured.is_over:
        return unavailable(UNIT, BETTER, NOT_OVER)
    # The time that a failed member took counts as well: it kept its cores from others.
    starts = [start.wall_s for member in measured.members if (start := member.one(RunStart))]
    stops = [stop.wall_s for member in measured.finished if (stop := member.one(RunStop))]
    failed = [member.last_event_s for member in measured.members if member.state == "failed"]
    stops += [last_s for last_s in failed if last_s is not None]
    return Metric(
        value=max(stops) - min(starts),
        unit=UNIT,
        better=BETTER,
        status="measured",
        n=len(measured.finished),
        samples_ref=measured.samples_ref,
        detail={"members": len(measured.finished), "of_members": measured.plan.members},
    )
