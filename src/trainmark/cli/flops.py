"""`trainmark flops`: FLOPs per sample of a model or workload, by operator, layer and image size."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from trainmark.cli.options import AsJson


def flops(
    name: Annotated[str, typer.Argument(metavar="MODEL|WORKLOAD", help="See `trainmark list models`.")],
    size: Annotated[str, typer.Option(help="Size of the workload.")] = "tiny",
    shapes: Annotated[
        list[str] | None,
        typer.Option(
            "--input", help="Input shape, e.g. 3x224x224; several give a table. Default: the workload's or model's."
        ),
    ] = None,
    layers: Annotated[bool, typer.Option("--layers", help="Show the model's layers too.")] = False,
    json: AsJson = False,
) -> None:
    """Count a model's FLOPs per sample, by operator. Forward and training, for each convention.

    \b
    Examples:
      trainmark flops resnet50-v1.5 --layers
      trainmark flops resnet50-v1 --input 3x160x160 --json
      trainmark flops resnet18 --input 3x256x256 --input 3x500x700
      trainmark flops image-classification
    """
    from trainmark.cli.output import print_json
    from trainmark.report.flops_table import print_flops, print_flops_by_input
    from trainmark.workloads.eager import skip_compiler
    from trainmark.workloads.find import find_card

    model, settings, own_shape = _model_of(name, size)
    wanted = [find_card(model).parse_input(shape) for shape in shapes] if shapes else [own_shape]
    from trainmark.workloads.flops.count import count_model  # loads torch; invalid input fails before that

    skip_compiler()
    counts = [count_model(model, settings, shape) for shape in wanted]
    if json:
        print_json(counts[0] if len(counts) == 1 else {"model": model, "inputs": counts})
    elif len(counts) > 1:
        print_flops_by_input(counts)
    if not json and (len(counts) == 1 or layers):
        for count in counts:
            print_flops(count, layers=layers)


def _model_of(name: str, size: str) -> tuple[str, Mapping[str, Any], tuple[int, ...] | None]:
    """Returns model, settings and sample shape of a workload, or the model itself."""
    from trainmark.data.facts import declared_facts
    from trainmark.spec.errors import UnknownNameError
    from trainmark.spec.registries import MODELS, WORKLOADS
    from trainmark.spec.registry import did_you_mean
    from trainmark.workloads.find import find_size

    if name in WORKLOADS:
        found = find_size(name, size)
        return found.model, found.model_settings, declared_facts(found).sample_shape
    if name not in MODELS:
        known = sorted({*MODELS, *WORKLOADS})
        raise UnknownNameError(
            f"There is no model or workload '{name}'.{did_you_mean(name, known)} Known: {', '.join(known)}."
        )
    return name, {}, None
