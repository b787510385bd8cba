"""Calling Slurm's commands: their output, or why they failed."""

import re
import subprocess

from trainmark.machine.stop import raise_if_stopped
from trainmark.spec.errors import EXIT_WRONG_INPUT, SchedulerError

TIMEOUT_S = 60.0
MAX_QUOTE = 200  # characters of an error that is quoted

# Errors while the controller restarts or is overloaded, worth a retry.
TRANSIENT = (
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
    """Slurm refused the request."""


class NoJobIdError(SlurmRefusedError):
    """sbatch succeeded without printing a job ID: there may be a job."""


class SlurmUnreachableError(SchedulerError):
    """Slurm is unreachable at the moment."""


class SlurmMissingError(SchedulerError):
    """A Slurm command is not installed."""

    exit_code = EXIT_WRONG_INPUT


def call(*words: str) -> str:
    """Runs a command and returns its standard output."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, errors="replace", check=False)
    except FileNotFoundError:
        raise SlurmMissingError(
            f"'{words[0]}' was not found. Run on a login node of the cluster, or choose --launcher local."
        ) from None
    except subprocess.TimeoutExpired:
        raise SlurmUnreachableError(f"{words[0]} did not answer within {TIMEOUT_S:.0f} s. Try again later.") from None
    if done.returncode == 0:
        return done.stdout
    raise_if_stopped()  # Ctrl-C in a terminal ends the command too
    message = in_one_line(done.stderr) or f"{words[0]} failed with exit code {done.returncode}"
    if any(error in message for error in TRANSIENT):
        raise SlurmUnreachableError(message)
    raise SlurmRefusedError(message)


def in_one_line(text: str) -> str:
    """Returns a command's messages in one line, without the `name: error:` prefixes."""
    lines = [re.sub(r"^\s*\w+: (error|fatal): ", "", line).strip() for line in text.splitlines()]
    return "; ".join(dict.fromkeys(line for line in lines if line))


def last_of(error: Exception) -> str:
    """Returns the last error that a command printed, the one that stopped it."""
    last = str(error).rpartition("; ")[2]
    return last.removesuffix("Try again later.").rstrip(". ")[:MAX_QUOTE]
