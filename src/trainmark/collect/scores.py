"""AI500's scores: FLOPS (Eq. 6) and VFLOPS (Eq. 7 and 8), as plain arithmetic."""


def flops_score(flop_per_sample: float, samples: float, seconds: float) -> float:
    """Eq. 6 over any number of epochs: all samples' training FLOPs over the time they took."""
    return flop_per_sample * samples / seconds


def quality_coefficient(quality: float, target: float, exponent: float) -> float:
    """Eq. 8: (achieved / target)^n; above 1 it rewards, below 1 it punishes."""
    return float((quality / target) ** exponent)


def vflops_score(flops: float, quality: float, target: float, exponent: float) -> float:
    """Eq. 7: FLOPS weighed by quality."""
    return flops * quality_coefficient(quality, target, exponent)
