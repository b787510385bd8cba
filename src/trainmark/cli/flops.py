"""`trainmark flops`: FLOPs per sample of a model or workload, by operator, for each convention."""

from typing import Annotated

import typer

from trainmark.cli.options import AsJson


def flops(
    name: Annotated[str, typer.Argument(metavar="MODEL|WORKLOAD", help="See `trainmark list models`.")],
    size: Annotated[str, typer.Option(help="Size of the workload.")] = "tiny",
    shape: Annotated[
        str | None, typer.Option("--input", help="Input shape, e.g. 3x224x224; default: the model's own.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Count the FLOPs per sample, forward and training, by operator, for each convention.

    \b
    Examples:

      trainmark flops resnet50-v1.5

      trainmark flops resnet50-v1 --input 3x160x160 --json

      trainmark flops image-classification
    """
    from trainmark.cli.output import print_json
    from trainmark.report.flops_table import print_flops
    from trainmark.spec.errors import UnknownNameError
    from trainmark.spec.registries import MODELS, WORKLOADS
    from trainmark.spec.registry import closest
    from trainmark.workloads.find import find_size
    from trainmark.workloads.flops.count import count_model
    from trainmark.workloads.flops.input_shape import parse_shape

    model, settings = name, {}
    if name in WORKLOADS:
        found = find_size(name, size)
        model, settings = found.model, dict(found.model_settings)
    elif name not in MODELS:
        known = [*MODELS, *WORKLOADS]
        raise UnknownNameError(
            f"There is no model or workload '{name}'.{closest(name, known)} Known: {', '.join(known)}."
        )
    counts = count_model(model, settings, parse_shape(shape) if shape else None)
    if json:
        print_json(counts)
    else:
        print_flops(counts)
