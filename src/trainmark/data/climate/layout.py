"""Which HDF5 files of a folder make up a split: those of train/ or eval/, or some of the years of a download."""

from collections.abc import Sequence
from pathlib import Path

from trainmark.data.split import SplitName
from trainmark.spec.errors import DataError

MAKE_THEM = "`trainmark data make extreme-weather` makes some; the real ones: https://extremeweatherdataset.github.io"


def files_of_split(folder: Path, split: SplitName, eval_files: Sequence[str] = ()) -> list[Path]:
    """The files of a split, by name.

    DIR/train/*.h5 and DIR/eval/*.h5, where DIR has these folders. Otherwise the files in DIR itself, one a year:
    `eval_files` names those held out; without it the last is.
    """
    if not folder.is_dir():
        raise DataError(f"There is no folder {folder}. Set data.path to one with ExtremeWeather files; {MAKE_THEM}.")
    if (folder / "train").is_dir() or (folder / "eval").is_dir():
        files = _h5_files(folder / split)
        if not files:
            raise DataError(f"{folder / split} holds no *.h5 file, but the {split} split needs one; {MAKE_THEM}.")
        return files
    return _share_out(folder, split, eval_files)


def _share_out(folder: Path, split: SplitName, eval_files: Sequence[str]) -> list[Path]:
    files = _h5_files(folder)
    names = [file.name for file in files]
    if not files:
        raise DataError(f"{folder} holds neither train/ and eval/ nor *.h5 files; {MAKE_THEM}.")
    unknown = sorted(set(eval_files) - set(names))
    if unknown:
        raise DataError(
            f"data.eval_files names {', '.join(unknown)}, but {folder} has no such file. It has {', '.join(names)}."
        )
    held_out = set(eval_files) or {names[-1]}
    if len(held_out) == len(files):
        raise DataError(
            f"All {len(files)} *.h5 files of {folder} would be held out, and none is left to train on. "
            "Add a year, or name fewer in data.eval_files."
        )
    return [file for file in files if (file.name in held_out) == (split == "eval")]


def _h5_files(folder: Path) -> list[Path]:
    """Files whose name starts with a dot are still being written."""
    return sorted(file for file in folder.glob("*.h5") if not file.name.startswith("."))
