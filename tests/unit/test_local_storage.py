"""The folder on a node's own storage: named by the site, filled in on the node, its user's alone."""

import os
from pathlib import Path

import pytest

from trainmark.machine.storage import user_staging_folder
from trainmark.spec.errors import StorageError


def test_variables_in_the_name_of_local_storage_are_those_of_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODE_DISK", str(tmp_path))
    folder = user_staging_folder("${NODE_DISK}")
    assert folder == tmp_path / f"trainmark-{os.geteuid()}" and folder.stat().st_mode & 0o777 == 0o700
    assert user_staging_folder("$NODE_DISK") == folder


@pytest.mark.parametrize(
    ("local_storage", "says"),
    [
        ("$NOBODY_SET_THIS/x", "the variable NOBODY_SET_THIS is not set"),
        ("${NOBODY_SET_THIS}", "the variable NOBODY_SET_THIS is not set"),
        ("scratch", "'scratch' is not an absolute path"),
        ("/no/such/folder", "/no/such/folder does not exist"),
        ("/proc", "cannot be created"),
    ],
)
def test_local_storage_that_cannot_be_used_is_refused_in_one_line(local_storage: str, says: str) -> None:
    with pytest.raises(StorageError) as refused:
        user_staging_folder(local_storage)
    assert f"groups.local_storage is '{local_storage}'" in str(refused.value) and says in str(refused.value)
    assert "site file" in str(refused.value) and "\n" not in str(refused.value)


def test_a_folder_that_somebody_else_has_put_there_is_not_used(tmp_path: Path) -> None:
    own = tmp_path / f"trainmark-{os.geteuid()}"
    own.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(StorageError, match="is not a folder owned by this user"):
        user_staging_folder(str(tmp_path))
    if os.geteuid() == 0:
        own.unlink()
        own.mkdir()
        os.chown(own, 12345, 12345)
        with pytest.raises(StorageError, match="is not a folder owned by this user"):
            user_staging_folder(str(tmp_path))
