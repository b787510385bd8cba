"""What a run says of its members while it watches them."""

from trainmark.collect.progress import mark_queued
from trainmark.report.progress_table import count_states, progress_line
from trainmark.spec.progress import MemberProgress
from trainmark.spec.queue import QueueState

STARTING = [MemberProgress(member, state="starting", attempt=1, epochs=4) for member in range(3)]


def test_members_whose_jobs_wait_are_counted_as_queued_with_slurms_reason() -> None:
    waiting = QueueState("7_0", "PENDING", "", "PartitionConfig")
    seen = {0: waiting, 1: waiting, 2: QueueState("7_2", "RUNNING", "n1")}
    assert count_states(mark_queued(STARTING, seen)) == "2 queued (PartitionConfig), 1 starting"


def test_where_there_is_no_scheduler_members_are_what_their_events_say() -> None:
    assert progress_line(mark_queued(STARTING, {})) == "3 starting"
