"""What becomes of a run whose process is asked to end, and how to go on with it."""

from pathlib import Path


def outcome_of_stop(run_path: Path, *, jobs_go_on: bool) -> str:
    """What follows «Stopped by …»."""
    if jobs_go_on:
        return (
            f"; jobs that were submitted go on. See them with: trainmark status {run_path}; stop them with: trainmark "
            f"cancel {run_path}; watch and collect with: trainmark resume {run_path}"
        )
    return f". Finished members are kept; go on with: trainmark resume {run_path}"
