"""The Plan of a run: Eq. 5 solved, the recipe completed and checked, members mapped."""

from trainmark.plan.compatible import check_compatible
from trainmark.plan.device_defaults import fill_defaults
from trainmark.plan.mapping import map_members
from trainmark.plan.scale import solve_scale
from trainmark.plan.staging import check_staging
from trainmark.spec.config import RunConfig
from trainmark.spec.plan import Plan
from trainmark.spec.site import Site


def make_plan(config: RunConfig, site: Site) -> tuple[RunConfig, Plan]:
    """The plan, and the config with nothing left open, so that it repeats this very run."""
    scale = solve_scale(config.ensemble, site)
    ensemble = config.ensemble.model_copy(
        update={"members": scale.members, "workers": scale.workers, "system_scale": scale.system_scale}
    )
    complete = fill_defaults(config.model_copy(update={"ensemble": ensemble}), scale.workers, site)
    check_compatible(complete, scale.workers, site)
    plan = map_members(scale, site, complete.launch)
    check_staging(complete, plan, site)
    return complete, plan
