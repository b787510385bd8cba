"""The Plan of a run: Eq. 5 solved, members mapped, and the configuration completed with what was solved."""

from trainmark.plan.mapping import map_members
from trainmark.plan.scale import solve_scale
from trainmark.spec.config import RunConfig
from trainmark.spec.plan import Plan
from trainmark.spec.site import Site


def make_plan(config: RunConfig, site: Site) -> tuple[RunConfig, Plan]:
    """The plan, and the config with members, workers and system scale filled in, so that it repeats this very run."""
    scale = solve_scale(config.ensemble, site)
    ensemble = config.ensemble.model_copy(
        update={"members": scale.members, "workers": scale.workers, "system_scale": scale.system_scale}
    )
    return config.model_copy(update={"ensemble": ensemble}), map_members(scale, site)
