"""SiteDraft, and its site file: known settings as TOML values, settings to fill in as comments."""

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainmark.spec.site import NodeGroup, Site
from trainmark.spec.units import show_cores

WIDTH = 118
HEAD = (
    "A site file for trainmark. Complete it: commented-out keys show what may be missing. "
    "All keys are explained in docs/configuration.md; examples are in docs/sites."
)
AFTER_SLURM = (
    "Then check the nodes with small jobs: trainmark preflight --site site.toml",
    "To see the scripts of a run: trainmark run --launcher slurm --site site.toml --dry-run",
)
AFTER_LOCAL = ("To see what a run would do: trainmark run --site site.toml --dry-run",)


@dataclass(frozen=True)
class SiteDraft:
    """A site, with notes for whoever completes its file; `reasons` are short comments by key."""

    site: Site
    notes: tuple[str, ...]
    group_notes: tuple[tuple[str, ...], ...]
    reasons: Mapping[str, str] = field(default_factory=dict)
    has_scheduler: bool = False


def site_toml(draft: SiteDraft) -> str:
    """Returns the text of the site file."""
    site = draft.site
    notes = (HEAD, *(AFTER_SLURM if draft.has_scheduler else AFTER_LOCAL), *draft.notes)
    lines = [
        *(line for note in notes for line in _comment(note)),
        "",
        _value("name", site.name),
        *_site_lines(draft),
    ]
    if draft.has_scheduler:
        lines += ["", "[slurm]", *_slurm_lines(draft)]
    for group, notes in zip(site.groups, draft.group_notes, strict=True):
        lines += ["", "[[groups]]", *(line for note in notes for line in _comment(note)), *_group_lines(group, draft)]
    return "\n".join(lines) + "\n"


def _site_lines(draft: SiteDraft) -> Iterator[str]:
    site = draft.site
    yield (
        _value("allocators", list(site.allocators))
        if site.allocators
        else _example("allocators", ["tcmalloc"], "if every node has the library")
    )
    if draft.has_scheduler:
        yield _example("setup", ["module load python", "source VENV/bin/activate"], "shell lines that start each job")
    yield _example("container", ["apptainer", "exec", "--nv", "IMAGE.sif"], "runs trainmark in a container")
    yield _example("python", "VENV/bin/python", "on the nodes; default: the one that submits")


def _slurm_lines(draft: SiteDraft) -> Iterator[str]:
    slurm, reasons = draft.site.slurm, draft.reasons
    yield _example("account", "PROJECT", reasons.get("slurm.account", ""))
    yield _example("qos", "QOS")
    yield _example("reservation", "NAME")
    limit, why = slurm.time_limit_minutes, reasons.get("slurm.time_limit_minutes", "")
    yield _value("time_limit_minutes", limit, why) if limit else _example("time_limit_minutes", 60, why)
    yield _value("binding", slurm.binding, reasons.get("slurm.binding", ""))
    mpi_why = reasons.get("slurm.mpi", "")
    yield (_value("mpi", slurm.mpi, mpi_why) if slurm.mpi else _example("mpi", "pmix", "`srun --mpi=list` shows types"))
    yield _example("options", ["--constraint=FEATURE"], "more sbatch options")


def _group_lines(group: NodeGroup, draft: SiteDraft) -> Iterator[str]:
    if group.partition is not None:
        yield _value("partition", group.partition)
    if group.names:
        yield _value("names", list(group.names))
    else:
        yield _value("prefix", group.prefix)
        yield _value("count", group.count)
    yield "slots = ["
    for slot in group.slots:
        device = "" if slot.accelerator is None else f", accelerator = {slot.accelerator}"
        yield f'    {{ cores = "{show_cores(slot.cores)}"{device} }},'
    yield "]"
    if group.memory_gib_per_slot is not None:
        yield _value("memory_gib_per_slot", group.memory_gib_per_slot)
    elif draft.has_scheduler:
        yield _example("memory_gib_per_slot", 4, "Slurm does not report the nodes' memory")
    if any(slot.accelerator is not None for slot in group.slots):
        yield from _accelerator_lines(group, draft)
    if draft.has_scheduler:
        yield _example("network_interface", "ib0", "`ip -brief address` on a node shows them")
    storage, why = group.local_storage, draft.reasons.get("groups.local_storage", "")
    yield (
        _value("local_storage", storage, why)
        if storage
        else _example("local_storage", "/local/scratch", "a node-local folder, or $TMPDIR")
    )


def _accelerator_lines(group: NodeGroup, draft: SiteDraft) -> Iterator[str]:
    if draft.has_scheduler:
        yield _value("gres", group.gres)
    if group.bf16:
        yield _example("bf16", False, "if they are older than Ampere")
    else:
        yield _value("bf16", False, "older than Ampere")


def _value(key: str, value: Any, why: str = "") -> str:
    """One line of TOML, with a short comment."""
    return f"{key} = {_toml(value)}" + (f"  # {_printable(why)}" if why else "")


def _example(key: str, example: Any, why: str = "") -> str:
    """A commented-out example of a key."""
    return f"# {_value(key, example, why)}"


def _toml(value: Any) -> str:
    import tomli_w

    if isinstance(value, list):
        return f"[{', '.join(_toml(item) for item in value)}]"
    return tomli_w.dumps({"x": value}).removeprefix("x = ").rstrip("\n")


def _comment(note: str) -> list[str]:
    """The note as TOML comment lines, without control characters."""
    return textwrap.wrap(_printable(note), WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)
