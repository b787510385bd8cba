"""User-facing errors: one line with what is wrong, what was given and what to do."""

import re

ADVICE = re.compile(r"(?<=\.) (Choose|Change|Correct|Give|Install|Remove|Set|Try) .*", re.DOTALL)

EXIT_RUN_FAILED = 1
EXIT_WRONG_INPUT = 2
EXIT_INTERRUPTED = 130


def escape_control_characters(message: str) -> str:
    """Returns the message on one line; names of files and parts may contain line breaks."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in message)


def without_advice(message: str) -> str:
    """Returns what is wrong alone, for where the options that the message advises do not exist."""
    return ADVICE.sub("", message)


class TrainmarkError(Exception):
    """An error the user can fix; printed as one line, exit code 2."""

    exit_code = EXIT_WRONG_INPUT


class UnknownNameError(TrainmarkError):
    """A name that is not in the registry."""


class ConfigError(TrainmarkError):
    """A configuration that is unreadable or inconsistent."""


class PlanError(TrainmarkError):
    """Choices that cannot be placed on the site (Eq. 5, slots, cores)."""


class StudyError(TrainmarkError):
    """A study, most likely a plug-in's, that is wrong or fails when it is called."""


class DataError(TrainmarkError):
    """A missing dataset or an unreadable file of it."""


class RunNotFoundError(TrainmarkError):
    """A run id, prefix or path that matches no stored run, or several."""


class StorageError(TrainmarkError):
    """A folder that is not writable or has too little space."""

    exit_code = EXIT_RUN_FAILED


class RunFailedError(TrainmarkError):
    """A run that started and failed; its folder contains the reason."""

    exit_code = EXIT_RUN_FAILED


class SchedulerError(RunFailedError):
    """A scheduler that is unreachable or rejects a request."""


class InterruptedRunError(BaseException):
    """A run that was stopped by Ctrl-C or SIGTERM; its folder can be resumed.

    Like KeyboardInterrupt it is no Exception: code that goes on after any error does not go on after this one.
    """

    exit_code = EXIT_INTERRUPTED
