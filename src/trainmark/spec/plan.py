"""Plan: the mapping of members and ranks to nodes and cores that follows from a RunConfig and a Site."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from trainmark.spec.units import counted, parse_cores, show_cores


class Rank(NamedTuple):
    """One worker of a member and its placement."""

    rank: int
    node: str
    rank_of_node: int
    cores: tuple[int, ...]
    accelerator: int | None


class Job(NamedTuple):
    """The training of one member. Jobs of one `lane` use the same slots, one after another."""

    member: int
    lane: int
    ranks: tuple[Rank, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes of the member, in the order of its ranks."""
        return tuple(dict.fromkeys(rank.node for rank in self.ranks))

    @property
    def is_first_of_lane(self) -> bool:
        """Whether this is the first member on its slots."""
        return self.member == self.lane


@dataclass(frozen=True)
class Plan:
    """All jobs of a run; `lanes` members train concurrently."""

    members: int
    workers_per_member: int
    system_scale: int
    site: str
    lanes: int
    slots: int  # of the site
    cores: int | None  # of these slots; missing in older run folders
    idle_slots: int  # without a worker
    jobs: tuple[Job, ...]

    @property
    def waves(self) -> int:
        """Members that a lane trains one after another."""
        return -(-self.members // self.lanes)

    @property
    def first_jobs(self) -> tuple[Job, ...]:
        """The first job of each lane; together they cover all slots in use once."""
        return self.jobs[: self.lanes]

    @property
    def workers_at_a_time(self) -> int:
        """Workers that train concurrently."""
        return self.lanes * self.workers_per_member

    @property
    def cores_used(self) -> int:
        """Cores assigned to workers; shared cores count once."""
        return len({(rank.node, core) for job in self.first_jobs for rank in job.ranks for core in rank.cores})


def rank_as_json(rank: Rank) -> dict[str, Any]:
    """Returns a rank as stored in plan.json and job.json."""
    return {
        "rank": rank.rank,
        "node": rank.node,
        "rank_of_node": rank.rank_of_node,
        "cores": show_cores(rank.cores),
        "accelerator": rank.accelerator,
    }


def job_as_json(job: Job) -> dict[str, Any]:
    """Returns a job as stored in plan.json and job.json."""
    return {"member": job.member, "lane": job.lane, "ranks": [rank_as_json(rank) for rank in job.ranks]}


def job_from_json(data: dict[str, Any]) -> Job:
    """Reads what `job_as_json` returned."""
    ranks = tuple(
        Rank(r["rank"], r["node"], r["rank_of_node"], parse_cores(r["cores"]), r["accelerator"]) for r in data["ranks"]
    )
    return Job(data["member"], data["lane"], ranks)


def plan_figures(plan: Plan) -> dict[str, Any]:
    """Returns the figures of a plan: everything in plan.json except the mapping."""
    return {
        "members": plan.members,
        "workers_per_member": plan.workers_per_member,
        "system_scale": plan.system_scale,
        "site": plan.site,
        "lanes": plan.lanes,
        "waves": plan.waves,
        "slots": plan.slots,
        "idle_slots": plan.idle_slots,
        "cores": plan.cores,
        "cores_used": plan.cores_used,
    }


def plan_as_json(plan: Plan) -> dict[str, Any]:
    """Returns a plan as stored in plan.json and, under `plan`, in result.json."""
    return {**plan_figures(plan), "mapping": [job_as_json(job) for job in plan.jobs]}


def plan_from_json(data: dict[str, Any]) -> Plan:
    """Reads what `plan_as_json` returned."""
    return Plan(
        members=data["members"],
        workers_per_member=data["workers_per_member"],
        system_scale=data["system_scale"],
        site=data["site"],
        lanes=data["lanes"],
        slots=data.get("slots", data["lanes"] * data["workers_per_member"] + data["idle_slots"]),
        cores=data.get("cores"),
        idle_slots=data["idle_slots"],
        jobs=tuple(job_from_json(job) for job in data["mapping"]),
    )


def describe_scale(plan: Plan) -> str:
    """`2 members × 1 worker = system scale 2`: Eq. 5 with the plan's figures."""
    members, workers = counted(plan.members, "member"), counted(plan.workers_per_member, "worker")
    return f"{members} × {workers} = system scale {plan.system_scale:,}"


def describe_slots(plan: Plan) -> str:
    """`1 of 2 worker slots used, all 2 cores`; older run folders have no cores."""
    used = f"{plan.workers_at_a_time:,} of {counted(plan.slots, 'worker slot')} used"
    return f"{used}, {_cores(plan, plan.cores)}" if plan.cores else used


def advise_on_idle(plan: Plan) -> str | None:
    """Returns which slots stay idle and how to use them, or None."""
    if not plan.idle_slots:
        return None
    cores = f": workers have {_cores(plan, plan.cores)}" if plan.cores else ""
    return (
        f"{plan.idle_slots:,} of {counted(plan.slots, 'worker slot')} {'stays' if plan.idle_slots == 1 else 'stay'} "
        f"idle{cores}. To use all, choose --members and --workers whose product is {plan.slots}."
    )


def _cores(plan: Plan, cores: int) -> str:
    all_cores = counted(cores, "core")
    return f"all {all_cores}" if plan.cores_used == cores else f"{plan.cores_used:,} of {all_cores}"
