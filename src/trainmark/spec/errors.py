"""The errors that users see: one line that says what is wrong, what was got and what to do."""

EXIT_RUN_FAILED = 1
EXIT_WRONG_INPUT = 2
EXIT_INTERRUPTED = 130


def on_one_line(message: str) -> str:
    """The message with line breaks and other control characters escaped: names of files and parts may hold them."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in message)


class TrainmarkError(Exception):
    """A mistake the user can mend; printed as one line, exit code 2."""

    exit_code = EXIT_WRONG_INPUT


class UnknownNameError(TrainmarkError):
    """A name that no registry entry has."""


class ConfigError(TrainmarkError):
    """A configuration that cannot be read or does not hold together."""


class PlanError(TrainmarkError):
    """Choices that cannot be placed on the site (Eq. 5, slots, cores)."""


class DataError(TrainmarkError):
    """A dataset that is not there, or a file of it that cannot be read."""


class RunNotFoundError(TrainmarkError):
    """A run id, prefix or path that names no stored run, or several."""


class StorageError(TrainmarkError):
    """A folder that cannot be written, or has too little space."""

    exit_code = EXIT_RUN_FAILED


class RunFailedError(TrainmarkError):
    """A run that started and could not end well; its folder says why."""

    exit_code = EXIT_RUN_FAILED


class SchedulerError(RunFailedError):
    """A scheduler that is unreachable, or refuses what it is asked."""


class InterruptedRunError(TrainmarkError):
    """A run that was stopped by Ctrl-C or SIGTERM; its folder can be resumed."""

    exit_code = EXIT_INTERRUPTED
