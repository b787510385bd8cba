"""Efficiency of scaling: speed per unit over that of the fewest units that were measured, within rounds."""

from trainmark.studies.outcomes import Outcomes, PointOutcomes, Summary
from trainmark.studies.tables import Measure


def efficiency(outcomes: Outcomes, metric: str, count: str, label: str = "efficiency") -> Measure:
    """The column of E_i = P_i / (P_b · i / b) over the coordinate `count`, b being the fewest measured; 1 is ideal."""

    def of(point: PointOutcomes) -> Summary | None:
        base = base_of(outcomes, point, metric, count)
        found = point.ratio(base, metric) if base else None
        return found.scaled(int(base.at[count]) / int(point.at[count])) if base and found else None

    def why(point: PointOutcomes) -> str | None:
        base = other_base(outcomes, point, metric, count)
        return f"{label} from {count.replace('_', ' ')} {base}" if base and of(point) else None

    return Measure("efficiency", "", label, of, why, source=metric)


def base_of(outcomes: Outcomes, point: PointOutcomes, metric: str, count: str) -> PointOutcomes | None:
    """Returns the point with the fewest of `count` that has the metric, at all other coordinates of `point`."""
    measured = [each for each in _alike(outcomes, point, count) if each.summary(metric)]
    return min(measured, key=lambda each: int(each.at[count]), default=None)


def other_base(outcomes: Outcomes, point: PointOutcomes, metric: str, count: str) -> int | None:
    """Returns the base's count if it is not the smallest that was asked for, which findings must say."""
    base = base_of(outcomes, point, metric, count)
    smallest = min(int(each.at[count]) for each in _alike(outcomes, point, count))
    return int(base.at[count]) if base and int(base.at[count]) != smallest else None


def _alike(outcomes: Outcomes, point: PointOutcomes, count: str) -> list[PointOutcomes]:
    return outcomes.where(**{name: value for name, value in point.at.items() if name != count})
