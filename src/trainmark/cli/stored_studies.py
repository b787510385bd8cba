"""`trainmark study resume`, `show` and `report`: studies that are stored."""

from typing import Annotated

import typer

from trainmark.cli.options import DEFAULT_RUNS_DIR, AsJson, RunsDir

StudyName = Annotated[
    str, typer.Argument(metavar="STUDY", help="A study's id, a unique prefix of it, its path, or 'latest'.")
]


def resume(study: StudyName = "latest", runs_dir: RunsDir = DEFAULT_RUNS_DIR, json: AsJson = False) -> None:
    """Run what is missing of a study; finished runs are kept.

    \b
    Examples:
      trainmark study resume latest
    """
    from trainmark.cli.study_run import carry_on
    from trainmark.studies.record import find_study

    carry_on(find_study(study, runs_dir), as_json=json)


def show(study: StudyName = "latest", runs_dir: RunsDir = DEFAULT_RUNS_DIR, json: AsJson = False) -> None:
    """Show the table of a study, finished or not.

    \b
    Examples:
      trainmark study show latest
    """
    from trainmark.cli.study_show import show_stored
    from trainmark.studies.record import find_study

    show_stored(find_study(study, runs_dir), as_json=json)


def report(study: StudyName = "latest", runs_dir: RunsDir = DEFAULT_RUNS_DIR, json: AsJson = False) -> None:
    """Analyse a study again and write its table, figures and page.

    \b
    Examples:
      trainmark study report latest
    """
    from trainmark.cli.output import print_json
    from trainmark.studies.record import find_study
    from trainmark.studies.whole import publish_again

    folder = find_study(study, runs_dir)
    files = [str(path) for path in publish_again(folder)]
    if json:
        print_json({"study": folder.study_id, "files": files})
    else:
        print("\n".join(files))
