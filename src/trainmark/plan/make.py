"""The Plan of a run: Eq. 5 solved, the recipe completed and checked, members mapped."""

from trainmark.plan.compatible import check_compatible
from trainmark.plan.device_defaults import fill_defaults
from trainmark.plan.mapping import map_members
from trainmark.plan.scale import solve_scale
from trainmark.plan.staging import check_staging
from trainmark.spec.config import RunChoices, RunConfig
from trainmark.spec.plan import Plan
from trainmark.spec.site import Site


def make_plan(choices: RunChoices, site: Site) -> tuple[RunConfig, Plan]:
    """The plan, and the config with nothing left open, so that it repeats this very run."""
    scale = solve_scale(choices.ensemble, site)
    config = fill_defaults(choices, scale, site)
    check_compatible(config, scale.workers, site)
    plan = map_members(scale, site, config.launch)
    check_staging(config, plan, site)
    return config, plan
