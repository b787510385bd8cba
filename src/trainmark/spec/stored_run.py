"""The config, plan and site of a stored run, or one line that says what is wrong with its folder."""

from zipfile import BadZipFile

from pydantic import ValidationError

from trainmark.spec.config import RunConfig
from trainmark.spec.config_file import read_config, read_site
from trainmark.spec.errors import RunNotFoundError
from trainmark.spec.files import read_json
from trainmark.spec.plan import Plan, plan_from_json
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.site import Site
from trainmark.spec.wrong_value import what_is_wrong

# What reading files that somebody may have cut, edited or removed can raise.
DAMAGE = (OSError, ValueError, LookupError, TypeError, ArithmeticError, BadZipFile)


def read_stored(folder: RunFolder) -> tuple[RunConfig, Plan, Site]:
    """What `stage` wrote."""
    try:
        return read_config(folder.config), plan_from_json(read_json(folder.plan)), read_site(folder.site)
    except DAMAGE as error:
        raise damaged(folder, error) from error


def damaged(folder: RunFolder, error: BaseException) -> RunNotFoundError:
    """The error for a folder whose files are missing or broken."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        reason = f"{'.'.join(map(str, first['loc'])) or 'a record'} {what_is_wrong(first)}"
    else:
        reason = f"{type(error).__name__}: {str(error).strip().split(chr(10))[0]}"
    return RunNotFoundError(
        f"The run in {folder.path} cannot be read: {reason}. "
        "Restore its files from a copy, or remove the folder and run again."
    )
