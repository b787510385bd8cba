"""Whether a run's data are there, or can be made, fit the model and are enough, and whether there is space for it."""

from trainmark.data.bootstrap import check_draws
from trainmark.data.facts import facts_of
from trainmark.data.folders import foresee_dataset
from trainmark.machine.storage import check_space
from trainmark.plan.images import check_found
from trainmark.spec.config import RunConfig
from trainmark.spec.plan import Plan
from trainmark.spec.run_folder import Places
from trainmark.spec.workload import DataFacts

SPACE_FOR_RECORDS = 4 * 2**20
SPACE_FOR_MEMBER = 16 * 2**10  # of records, beside its bootstrap


def check_data(config: RunConfig, plan: Plan, places: Places) -> DataFacts:
    """What the data are, if the run can begin; raises otherwise. Nothing is written, and no sample is read."""
    facts = facts_of(foresee_dataset(config, places.data))
    check_found(config, facts)
    num_samples = facts.num_train or 0
    check_draws(config, num_samples, plan.members, plan.workers_per_member)
    check_space(places.runs, needed_bytes=plan.members * (num_samples + SPACE_FOR_MEMBER) + SPACE_FOR_RECORDS)
    return facts
