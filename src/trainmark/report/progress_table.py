"""Progress of the members, as a table and as one line."""

from collections import Counter

from rich.progress_bar import ProgressBar
from rich.table import Table

from trainmark.spec.status import ACTIVE_STATES, MemberProgress
from trainmark.spec.units import show_duration

MAX_ROWS = 16
COLUMNS = ("member", "state", "progress", "epoch", "loss", "quality", "samples/s", "left")


def progress_table(members: list[MemberProgress], most_rows: int = MAX_ROWS) -> Table:
    """Returns one row per member; for a large ensemble only active members and a summary."""
    is_queued = any(member.job for member in members)
    columns = [name for name in COLUMNS if not (is_queued and name == "progress")]  # both do not fit
    table = Table(*columns, *(("job", "queue", "nodes") if is_queued else ()), box=None, pad_edge=False)
    shown = members
    if len(members) > most_rows:
        shown = [member for member in members if member.state not in ("waiting", "finished")][:most_rows]
        table.title = count_states(members)
    for member in shown:
        done = (member.epoch or member.epochs or 0) if member.state == "finished" else member.epoch
        table.add_row(
            str(member.member),
            member.phase or member.state,
            *([] if is_queued else [_bar(member, done)]),
            f"{done}{_of_epochs(member)}",
            "" if member.loss is None else f"{member.loss:.3f}",
            "" if member.quality is None else f"{member.quality:.4f}",
            "" if member.samples_per_s is None else show_rate(member.samples_per_s),
            show_duration(member.seconds_left) if member.seconds_left else "",
            *(_queued(member) if is_queued else ()),
        )
    return table


def _bar(member: MemberProgress, done: int) -> ProgressBar:
    """Returns the epochs done, or of a training of minutes the time."""
    if member.epochs is not None:
        return ProgressBar(total=member.epochs, completed=done, width=10)
    left_s = 0.0 if member.state == "finished" else member.seconds_left
    is_known = left_s is not None and member.trained_s + left_s > 0
    total = member.trained_s + (left_s or 0.0) if is_known else 1.0
    return ProgressBar(total=total, completed=member.trained_s, width=10)


def _of_epochs(member: MemberProgress) -> str:
    return "" if member.epochs is None else f"/{member.epochs}"


def show_rate(samples_per_s: float) -> str:
    """Returns integers, or two digits for slow models."""
    return f"{samples_per_s:.0f}" if samples_per_s >= 10 else f"{samples_per_s:.2g}"


def _queued(member: MemberProgress) -> tuple[str, str, str]:
    if member.job is None:
        return "", "", ""
    why = f" ({member.job.reason})" if member.job.is_waiting and member.job.reason else ""
    return member.job.job_id, f"{member.job.state}{why}", member.job.nodes


def run_state(members: list[MemberProgress], *, is_alive: bool) -> str:
    """Returns the state of the whole run; `is_alive`: its launcher is running."""
    states = {member.state for member in members}
    if is_alive:
        return "running"
    if states & {"queued", *ACTIVE_STATES}:
        return "running as jobs; the launcher has ended"
    return "all members finished" if states == {"finished"} else "not running"


def count_states(members: list[MemberProgress]) -> str:
    """`2 training, 5 waiting, 1 finished`; with reasons for queued ones."""
    counts = Counter(member.phase or member.state for member in members)
    reasons = {member.job.reason for member in members if member.state == "queued" and member.job} - {""}
    why = f" ({', '.join(sorted(reasons))})" if reasons else ""
    return ", ".join(f"{count} {state}{why if state == 'queued' else ''}" for state, count in counts.items())


def progress_line(members: list[MemberProgress]) -> str:
    """Returns one line for logs: counts by state, and progress of training members."""
    training = [member for member in members if member.state == "training" and not member.phase][:4]
    parts = [count_states(members)]
    for member in training:
        epoch = min(member.epoch + 1, member.epochs or member.epoch + 1)
        text = f"member {member.member} epoch {epoch}{_of_epochs(member)}"
        if member.loss is not None and member.samples_per_s is not None and member.seconds_left is not None:
            text += f" loss {member.loss:.3f} {show_rate(member.samples_per_s)} samples/s, "
            text += f"{show_duration(member.seconds_left)} left"
        parts.append(text)
    return "; ".join(parts)
