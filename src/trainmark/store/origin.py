"""Where a run comes from: when, on which machine, with which software and data it was begun."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from trainmark.data.facts import differences
from trainmark.machine.describe import describe_machine
from trainmark.machine.software import code_version, describe_software
from trainmark.spec.config import RunConfig
from trainmark.spec.workload import DataFacts
from trainmark.workloads.find import find_size


def origin_of(config: RunConfig, facts: DataFacts, config_hash: str) -> dict[str, Any]:
    """The content of origin.json, now."""
    unlike = differences(find_size(config.workload, config.size), config.dataset, facts)
    return {
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "software": describe_software(),
        "data": {**asdict(facts), "unlike_the_size": unlike},
        "provenance": {"code_version": code_version(), "config_hash": config_hash},
    }
