"""Whether a plan's nodes have storage of their own, where data are to be staged to it."""

from trainmark.spec.config import RunConfig
from trainmark.spec.errors import PlanError
from trainmark.spec.plan import Plan
from trainmark.spec.site import Site


def check_staging(config: RunConfig, plan: Plan, site: Site) -> None:
    """Returns unless data are to be staged and the site does not say where; that is refused."""
    if config.launch.stage == "none":
        return
    for node in dict.fromkeys(rank.node for job in plan.first_jobs for rank in job.ranks):
        if site.group_of(node).local_storage is None:
            raise PlanError(
                f"launch.stage=local copies data to each node's own storage, but site '{site.name}' does not say where "
                f'{node} has any. Give its group local_storage = "$TMPDIR", or another folder, in a file for --site '
                "(trainmark machine --draft-site writes one), or choose --set launch.stage=none."
            )
