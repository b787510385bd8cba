"""Slurm's programs, called with lists of words; what they answer, or why they do not."""

import subprocess

from trainmark.spec.errors import PlanError, RunFailedError

TIMEOUT_S = 60.0

# What the programs say while the controller restarts or is too busy: later it will answer.
PASSING = (
    "Unable to contact slurm controller",
    "Socket timed out",
    "Zero Bytes were transmitted",
    "Connection refused",
    "Connection reset",
    "Connection timed out",
    "Transport endpoint is not connected",
    "Resource temporarily unavailable",
    "Slurm temporarily unable to accept job",
    "Slurm backup controller in standby mode",
    "Unexpected message received",
)


class SlurmRefusedError(RunFailedError):
    """Slurm answered, and the answer is no."""


class SlurmUnreachableError(RunFailedError):
    """Slurm does not answer now; it may later."""


class SlurmMissingError(PlanError):
    """There is no such program here."""


def call(*words: str) -> str:
    """What the program prints."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, errors="replace", check=False)
    except FileNotFoundError:
        raise SlurmMissingError(
            f"'{words[0]}' was not found here. Run on a login node of the cluster, or choose --launcher local."
        ) from None
    except subprocess.TimeoutExpired:
        raise SlurmUnreachableError(f"{words[0]} did not answer within {TIMEOUT_S:.0f} s. Try again later.") from None
    if done.returncode == 0:
        return done.stdout
    said = " ".join(done.stderr.split()) or f"{words[0]} ended with exit code {done.returncode}"
    if any(word in said for word in PASSING):
        raise SlurmUnreachableError(said)
    raise SlurmRefusedError(said)
