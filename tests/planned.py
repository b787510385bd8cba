"""A planned RunConfig for tests that need no plan."""

from typing import Any

from trainmark.plan.explain import Source
from trainmark.plan.make import make_plan
from trainmark.plan.resolve import resolve_config
from trainmark.spec.config import RunConfig
from trainmark.spec.site import NodeGroup, Site, Slot

EIGHT_CORES = Site(
    name="eight", groups=(NodeGroup(local_storage="/tmp", slots=tuple(Slot(cores=(i,)) for i in range(8))),)
)


def planned_config(**values: Any) -> RunConfig:
    """Returns a RunConfig for one member on a node of eight cores; other defaults are the default workload's."""
    values["ensemble"] = {"members": 1, "workers": 1, **values.get("ensemble", {})}
    return make_plan(resolve_config([Source("test", values)]), EIGHT_CORES)[0]
