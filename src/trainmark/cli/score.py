"""`trainmark score`: FLOPS and VFLOPS from given figures of other systems."""

import math
from typing import Annotated

import typer

from trainmark.cli.options import AsJson
from trainmark.spec.errors import ConfigError

MAX_EXPONENT = 500  # e^500 still fits a float


def score(
    gflop_per_sample: Annotated[float, typer.Option(min=0, help="Training GFLOP per sample.")],
    samples: Annotated[float, typer.Option(min=1, help="Samples in one epoch.")],
    epochs: Annotated[float, typer.Option(min=0, help="Epochs trained.")],
    minutes: Annotated[float, typer.Option(min=0, help="Minutes of training.")],
    quality: Annotated[float, typer.Option(min=0, help="Quality achieved: a fraction such as 0.751, or percent.")],
    target: Annotated[float, typer.Option(min=0, help="Target quality, on the same scale.")],
    exponent: Annotated[float, typer.Option(min=0, help="n of Eq. 8: 5 image classification, 10 extreme weather.")],
    json: AsJson = False,
) -> None:
    """Compute FLOPS and VFLOPS from the figures of another system.

    \b
    Examples:
      trainmark score --gflop-per-sample 23 --samples 1280000 --epochs 90 \\
                      --minutes 1.2 --quality 0.751 --target 0.763 --exponent 10
    """
    from trainmark.cli.output import print_json
    from trainmark.collect.metrics.flops import flops_score, quality_coefficient, vflops_score
    from trainmark.report.console import result_console
    from trainmark.spec.units import with_prefix

    for name, value in {"epochs": epochs, "minutes": minutes, "target": target}.items():
        if value <= 0:
            raise ConfigError(f"--{name} must be more than 0, but got {value:g}. Give the measured figure.")
    check_same_scale(quality, target)
    if exponent * abs(math.log((quality or target) / target)) > MAX_EXPONENT:
        raise ConfigError(f"({quality:g} / {target:g})^{exponent:g} overflows. Choose a smaller --exponent.")
    flops = flops_score(gflop_per_sample * 1e9, samples * epochs, minutes * 60)
    coefficient = quality_coefficient(quality, target, exponent)
    vflops = vflops_score(flops, quality, target, exponent)
    if not math.isfinite(flops + vflops):
        raise ConfigError("These figures give no finite FLOPS. Check their units: GFLOP per sample, minutes.")
    if json:
        print_json({"flops": flops, "vflops": vflops, "coefficient": coefficient, "exponent": exponent})
        return
    console = result_console()
    console.print(f"FLOPS   {with_prefix(flops, 'FLOPS')}")
    weight = f"({quality:g} / {target:g})^{exponent:g} = × {coefficient:.4g}"
    console.print(f"VFLOPS  {with_prefix(vflops, 'FLOPS')}  FLOPS × {weight}")


def check_same_scale(quality: float, target: float) -> None:
    """Raises unless both figures are fractions up to 1 or both are percent."""
    for name, value, other in (("quality", quality, target), ("target", target, quality)):
        if value > 100:
            raise ConfigError(f"--{name} must be a fraction up to 1 or percent up to 100, but got {value:g}.")
        if value > 1 >= other:
            raise ConfigError(
                f"--quality {quality:g} and --target {target:g} are not on the same scale: "
                f"write {value / 100:g} for {value:g} %, or give both in percent."
            )
