"""What another node wrote is seen late, or half: readers wait a while, and say what is wrong if it never comes."""

import json
import math
import threading
from pathlib import Path

import pytest
from torch.distributed import HashStore

from trainmark.machine.storage import read_when_visible, refresh_nfs_cache
from trainmark.spec.files import read_json
from trainmark.spec.run_folder import CheckpointFolder
from trainmark.train.checkpoints import Saved, agree_on_checkpoints


def write_later(path: Path, text: str, seconds: float = 0.2) -> threading.Timer:
    timer = threading.Timer(seconds, path.write_text, [text])
    timer.start()
    return timer


def test_a_file_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    late = tmp_path / "late.json"
    writer = write_later(late, '{"port": 7}')
    assert read_when_visible(lambda: read_json(late), tmp_path, math.inf) == {"port": 7}
    writer.join()


def test_a_file_that_is_seen_in_half_is_read_again(tmp_path: Path) -> None:
    late = tmp_path / "late.json"
    late.write_text('{"port": ')
    writer = write_later(late, '{"port": 7}')
    assert read_when_visible(lambda: read_json(late), tmp_path, math.inf) == {"port": 7}
    writer.join()


def test_what_never_comes_ends_in_the_readers_own_error(tmp_path: Path) -> None:
    never = tmp_path / "never.json"
    with pytest.raises(FileNotFoundError, match=r"never\.json"):
        read_when_visible(lambda: read_json(never), tmp_path, timeout_s=0.1)
    never.write_text("{")
    with pytest.raises(json.JSONDecodeError):
        read_when_visible(lambda: read_json(never), tmp_path, timeout_s=0.1)


def test_looking_afresh_changes_the_folder_and_leaves_nothing_in_it(tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    before = tmp_path.stat().st_mtime_ns
    refresh_nfs_cache(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert tmp_path.stat().st_mtime_ns > before  # that is what an NFS client must tell its server, and learns from


def test_looking_afresh_at_what_is_not_there_is_no_error(tmp_path: Path) -> None:
    refresh_nfs_cache(tmp_path / "nowhere")


def test_all_ranks_go_on_from_the_checkpoints_that_the_first_one_sees(tmp_path: Path) -> None:
    newest = Saved(CheckpointFolder(tmp_path / "checkpoint-2"), ("0a", "0b"))
    older = Saved(CheckpointFolder(tmp_path / "checkpoint-1"), None)
    for of_first, of_second in (([newest, older], [older]), ([newest], []), ([], [older])):
        store = HashStore()
        assert agree_on_checkpoints(lambda found=of_first: found, 0, store) == of_first
        assert agree_on_checkpoints(lambda found=of_second: found, 1, store) == of_first
    assert agree_on_checkpoints(lambda: [older], 0, None) == [older]  # a rank that is alone asks nobody
