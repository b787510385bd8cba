"""`trainmark machine --measure` on a terminal: beside the ceiling stands what others took of the cores meanwhile."""

import pytest

from trainmark.report.machine_text import print_machine


@pytest.mark.parametrize(
    ("no_progress", "shown"),
    [(None, "0.50 of 2 cores"), ("/proc/stat cannot be read", "not watched: /proc/stat cannot be read")],
)
def test_the_load_by_others_is_shown(no_progress: str | None, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    machine = {
        "host": "a",
        "cpu": "b",
        "architecture": "c",
        "instruction_sets": [],
        "cores": 2,
        "numa_domains": ["0-1"],
    }
    ceiling = {
        "precision": "fp32",
        "kernel": "torch.mm 1024",
        "kernels": {"torch.mm 1024": {"flops": 1e9}},
        "rounds": [{"flops": 1e9, "over_s": 0.2, "others_s": others_s} for others_s in (0.05, 0.15)],
        "cores": 2,
        "no_progress": no_progress,
    }
    data = {"machine": {**machine, "memory_bytes": 1, "accelerators": []}, "site": {"groups": []}, "software": {}}
    print_machine({**data, "ceiling": ceiling})
    assert shown in capsys.readouterr().out
