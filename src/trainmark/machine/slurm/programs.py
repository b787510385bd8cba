"""Slurm's programs, called with lists of words; what they answer, or why they do not."""

import re
import subprocess

from trainmark.spec.errors import EXIT_WRONG_INPUT, SchedulerError

TIMEOUT_S = 60.0
MOST_LETTERS = 200  # of an error that is quoted

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


class SlurmRefusedError(SchedulerError):
    """Slurm answered, and the answer is no."""


class SlurmSilentError(SlurmRefusedError):
    """sbatch ended well, but did not say which job it made: there may be one."""


class SlurmUnreachableError(SchedulerError):
    """Slurm does not answer now; it may later."""


class SlurmMissingError(SchedulerError):
    """There is no such program here."""

    exit_code = EXIT_WRONG_INPUT


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
    said = in_one_line(done.stderr) or f"{words[0]} ended with exit code {done.returncode}"
    if any(word in said for word in PASSING):
        raise SlurmUnreachableError(said)
    raise SlurmRefusedError(said)


def in_one_line(text: str) -> str:
    """What a program said, without its name and "error" before each line."""
    lines = [re.sub(r"^\s*\w+: (error|fatal): ", "", line).strip() for line in text.splitlines()]
    return "; ".join(dict.fromkeys(line for line in lines if line))


def last_of(error: Exception) -> str:
    """The last of the errors that a program printed, which is the one that stopped it."""
    last = str(error).rpartition("; ")[2]
    return last.removesuffix("Try again later.").rstrip(". ")[:MOST_LETTERS]
