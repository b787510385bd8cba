"""The Data Duplicator: only the needed samples are copied, once, and whatever is not as it was copied is found."""

import json
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.small_disk import small_disk_on
from trainmark.data.bootstrap import sample_counts
from trainmark.data.datasets.artworks import Artworks, ArtworksSettings
from trainmark.data.datasets.extreme_weather import ExtremeWeather, ExtremeWeatherSettings
from trainmark.data.datasets.imagenet import Imagenet, ImagenetSettings
from trainmark.data.readers import Readers
from trainmark.data.source import Streamed
from trainmark.data.split import StoredSplit
from trainmark.data.staging.duplicator import Staged, StagedSplit, find_pack, stage, stage_whole
from trainmark.data.staging.pack import Pack, Selection
from trainmark.machine.storage import is_disk_full
from trainmark.spec.errors import ConfigError, DataError, StorageError
from trainmark.train.torch.batches import StreamedBatches

NUM_TRAIN = 40
KINDS = {
    "imagenet": Imagenet(ImagenetSettings(num_train=NUM_TRAIN, num_eval=10, num_classes=4, image_size=32)),
    # 8760 h / 365 h = 24 samples a year: 40 training samples are two files.
    "extreme-weather": ExtremeWeather(
        ExtremeWeatherSettings(num_train=NUM_TRAIN, num_eval=5, height=48, width=64, step_hours=365)
    ),
}
CHANGES = {"imagenet": "crop", "extreme-weather": "none"}


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folders = {name: tmp_path_factory.mktemp("data") / name for name in KINDS}
    for name, dataset in KINDS.items():
        dataset.make(folders[name], lambda done, total: None)
    return folders


@pytest.fixture(params=list(KINDS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def data(originals: dict[str, Path], name: str, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(originals[name], tmp_path / "data"))


@pytest.fixture
def pictures(originals: dict[str, Path], tmp_path: Path) -> Path:
    """Image files that a test may damage."""
    return Path(shutil.copytree(originals["imagenet"], tmp_path / "pictures"))


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    (tmp_path / "local").mkdir()
    return tmp_path / "local"


def opened(name: str, folder: Path) -> StoredSplit:
    dataset: Any = KINDS[name]
    split: StoredSplit = type(dataset)(dataset.settings.model_copy(update={"path": str(folder)})).load("train")
    return split


def needed_by(member: int, seed: int = 1) -> NDArray[np.bool_]:
    needed: NDArray[np.bool_] = sample_counts("poisson", NUM_TRAIN, seed, member) > 0
    return needed


def selection(name: str, split: StoredSplit, member: int = 0, seed: int = 1) -> Selection:
    return Selection(name, split.fingerprint(), needed_by(member, seed))


def staged_for(name: str, folder: Path, storage: Path, member: int = 0) -> Staged:
    split = opened(name, folder)
    return stage(split, selection(name, split, member), storage)


def visible(storage: Path) -> list[str]:
    return sorted(path.name for path in storage.iterdir() if not path.name.startswith("."))


def remains(storage: Path) -> list[str]:
    """Whatever lies there besides packs and locks."""
    return [path.name for path in storage.iterdir() if path.name.startswith(".") and not path.name.endswith(".lock")]


def flip_a_byte(pack: Pack, sample: int, needed: NDArray[np.bool_], split: StoredSplit) -> None:
    """One bit in the middle of a sample is not what it was."""
    before = sum(split.size_bytes(index) for index in np.flatnonzero(needed[:sample]).tolist())
    with pack.folder.samples.open("r+b") as file:
        file.seek(before + split.size_bytes(sample) // 2)
        (byte,) = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 4]))


def test_only_the_samples_that_a_bootstrap_drew_are_in_the_pack(name: str, data: Path, storage: Path) -> None:
    counts = sample_counts("poisson", NUM_TRAIN, 1, 0)
    split = opened(name, data)
    staged = staged_for(name, data, storage)
    drawn = np.flatnonzero(counts).tolist()
    assert 0.4 * NUM_TRAIN < len(drawn) < 0.85 * NUM_TRAIN  # 63.2 % on average
    assert [index for index in range(NUM_TRAIN) if index in staged.pack] == drawn
    assert (staged.pack.record.num_samples, staged.pack.record.of_samples) == (len(drawn), NUM_TRAIN)
    size = sum(len(split.raw(index)) for index in drawn)
    assert staged.pack.record.size_bytes == staged.pack.folder.samples.stat().st_size == size
    assert visible(storage) == [staged.pack.folder.path.name] and not remains(storage)


def test_staged_samples_are_those_of_the_split_bit_for_bit(name: str, data: Path, storage: Path) -> None:
    split = opened(name, data)
    staged = StagedSplit(split, staged_for(name, data, storage).pack)
    for index in range(NUM_TRAIN):
        change = CHANGES[name]
        assert bytes(staged.raw(index)) == bytes(split.raw(index))
        assert np.array_equal(staged.read(index, change, 7 + index), split.read(index, change, 7 + index))
    assert np.array_equal(staged.labels, split.labels) and len(staged) == NUM_TRAIN
    assert staged.fingerprint() == split.fingerprint() and staged.sample_shape == split.sample_shape
    assert staged.shapes is None
    assert np.array_equal(staged.offset, split.offset) and np.array_equal(staged.scale, split.scale)


def test_staged_samples_keep_their_unlike_shapes(tmp_path: Path, storage: Path) -> None:
    settings = ArtworksSettings(num_train=NUM_TRAIN, num_eval=4, num_classes=4, mean_megapixels=0.01, input="hr")
    Artworks(settings).make(tmp_path / "art", lambda done, total: None)
    split = Artworks(settings.model_copy(update={"path": str(tmp_path / "art")})).load("train")
    staged = StagedSplit(split, stage(split, selection("artworks", split), storage).pack)
    assert staged.shapes is not None and np.array_equal(staged.shapes, split.shapes)
    for index in range(NUM_TRAIN):
        sample = staged.read(index, "none", 0)
        assert sample.shape == (3, *staged.shapes[index]) and np.array_equal(sample, split.read(index, "none", 0))


def test_the_shared_place_is_read_for_samples_that_are_not_in_the_pack_alone(pictures: Path, storage: Path) -> None:
    split = opened("imagenet", pictures)
    staged = StagedSplit(split, staged_for("imagenet", pictures, storage).pack)
    shutil.rmtree(pictures)
    for index, is_needed in enumerate(needed_by(0)):
        if is_needed:
            assert staged.read(index, "crop", 3).shape == (3, 32, 32)
        else:
            with pytest.raises(DataError, match=rf"\.JPEG \(sample {index}\) cannot be read"):
                staged.read(index, "crop", 3)


def test_a_pack_that_is_there_is_used_again_and_another_members_is_another(
    name: str, data: Path, storage: Path
) -> None:
    first = staged_for(name, data, storage)
    written_ns = first.pack.folder.samples.stat().st_mtime_ns
    again = staged_for(name, data, storage)
    assert (first.reused, again.reused, again.replaced) == (False, True, None)
    assert again.pack.folder.samples.stat().st_mtime_ns == written_ns
    assert not staged_for(name, data, storage, member=1).reused
    assert len(visible(storage)) == 2


def test_other_data_have_other_packs(originals: dict[str, Path]) -> None:
    wanted = [selection(name, opened(name, folder)) for name, folder in originals.items()]
    assert len({each.pack_name for each in (*wanted, replace(wanted[0], fingerprint="other"))}) == 3
    assert replace(wanted[0], dataset="module:Imagenet").pack_name.startswith("Imagenet-")


def test_each_node_has_a_copy_of_its_own(name: str, data: Path, tmp_path: Path) -> None:
    split = opened(name, data)
    wanted = selection(name, split)
    nodes = [tmp_path / "node1", tmp_path / "node2"]
    for node in nodes:
        node.mkdir()
        assert not stage(split, wanted, node).reused
    contents = [(node / wanted.pack_name / "samples").read_bytes() for node in nodes]
    assert contents[0] == contents[1]


def test_a_pack_of_all_samples_serves_every_member(name: str, data: Path, storage: Path) -> None:
    split = opened(name, data)
    whole = stage_whole(split, name, storage, lambda done, total: None)
    assert not whole.reused and all(index in whole.pack for index in range(NUM_TRAIN))
    for member in range(3):
        staged = staged_for(name, data, storage, member)
        assert staged.reused and staged.pack.folder == whole.pack.folder
    assert len(visible(storage)) == 1


def test_data_in_memory_are_not_staged(storage: Path) -> None:
    from trainmark.data.datasets.shapes import Shapes, ShapesSettings

    split = Shapes(ShapesSettings(num_train=10, num_eval=10)).load("train")
    with pytest.raises(ConfigError, match="nothing to stage"):
        stage_whole(split, "shapes", storage, lambda done, total: None)


def test_a_changed_byte_is_found_and_named_and_the_next_attempt_mends_it(name: str, data: Path, storage: Path) -> None:
    split, needed = opened(name, data), needed_by(0)
    pack = staged_for(name, data, storage).pack
    bad, *good = np.flatnonzero(needed).tolist()[3:]
    flip_a_byte(pack, bad, needed, split)
    staged = StagedSplit(split, staged_for(name, data, storage).pack)  # a later attempt: record and size are right
    for index in good:
        staged.read(index, "none", 0)
    with pytest.raises(DataError) as found:
        staged.read(bad, "none", 0)
    assert f"{pack.folder.samples} on " in str(found.value) and f"sample {bad}: its bytes do not" in str(found.value)
    assert "\n" not in str(found.value) and "trainmark resume" in str(found.value)
    mended = staged_for(name, data, storage)
    assert (mended.reused, mended.replaced) == (False, "it has no completion record")
    assert bytes(mended.pack.read(bad)) == bytes(split.raw(bad))


def test_a_sample_is_checked_once_even_if_several_processes_read_it(data: Path, name: str, storage: Path) -> None:
    split, needed = opened(name, data), needed_by(0)
    pack = staged_for(name, data, storage).pack
    index = int(np.flatnonzero(needed)[0])
    reader = multiprocessing.get_context("fork").Process(target=pack.read, args=(index,))
    reader.start()
    reader.join()
    assert reader.exitcode == 0
    flip_a_byte(pack, index, needed, split)
    assert len(pack.read(index)) == split.size_bytes(index)  # the other process has checked it, so this one does not


def test_a_pack_that_was_cut_off_is_replaced(name: str, data: Path, storage: Path) -> None:
    pack = staged_for(name, data, storage).pack
    whole = pack.record.size_bytes
    os.truncate(pack.folder.samples, whole - 1)
    again = staged_for(name, data, storage)
    assert not again.reused
    assert again.replaced == f"its samples take {whole - 1:,} bytes, but should take {whole:,}"
    assert again.pack.folder.samples.stat().st_size == whole


def test_a_pack_that_is_cut_off_while_it_is_used_is_named(name: str, data: Path, storage: Path) -> None:
    split = opened(name, data)
    pack = staged_for(name, data, storage).pack
    last = int(np.flatnonzero(needed_by(0))[-1])
    size = split.size_bytes(last)
    os.truncate(pack.folder.samples, pack.record.size_bytes - 10)
    with pytest.raises(DataError, match=rf"sample {last}: only {size - 10:,} of its {size:,} bytes are left"):
        pack.read(last)


@pytest.mark.parametrize("file", ["complete.json", "index.npy", "samples"])
@pytest.mark.parametrize("content", [None, b"", b"{}", b"\0" * 100])
def test_a_pack_with_any_damaged_file_is_replaced(
    originals: dict[str, Path], storage: Path, file: str, content: bytes | None
) -> None:
    folder = staged_for("imagenet", originals["imagenet"], storage).pack.folder.path
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_bytes(content)
    again = staged_for("imagenet", originals["imagenet"], storage)
    assert not again.reused and again.replaced
    assert staged_for("imagenet", originals["imagenet"], storage).reused


def staging_process(name: str, folder: Path, storage: Path, told: Any) -> None:
    told.put(staged_for(name, folder, storage).reused)


def test_of_several_processes_that_stage_the_same_samples_one_copies(name: str, data: Path, storage: Path) -> None:
    context = multiprocessing.get_context("fork")
    told = context.Queue()
    staging = [context.Process(target=staging_process, args=(name, data, storage, told)) for _ in range(4)]
    for each in staging:
        each.start()
    answers = sorted(told.get(timeout=60) for _ in staging)
    for each in staging:
        each.join()
    assert answers == [False, True, True, True]
    assert len(visible(storage)) == 1 and not remains(storage)


class Slow:
    """A split whose samples take half a second each: long enough to be killed in between."""

    def __init__(self, split: StoredSplit) -> None:
        self._split = split

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._split, attribute)

    def __len__(self) -> int:
        return len(self._split)

    def raw(self, index: int) -> Any:
        time.sleep(0.5)
        return self._split.raw(index)


def test_a_writer_that_is_killed_leaves_nothing_that_is_taken_for_a_pack(name: str, data: Path, storage: Path) -> None:
    split = opened(name, data)
    slow: Any = Slow(split)
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=stage, args=(slow, selection(name, split, member), storage)) for member in (0, 1)]
    for writer in writers:
        writer.start()
    deadline = time.monotonic() + 30
    while len(remains(storage)) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    for writer in writers:
        assert writer.pid is not None
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
    assert len(remains(storage)) == 2 and not visible(storage)
    began = time.monotonic()
    staged = stage(split, selection(name, split), storage)  # the lock went with its holder
    assert time.monotonic() - began < 10
    assert (staged.reused, staged.replaced) == (False, None)
    assert not remains(storage)  # what the other writer left is gone as well: it would only take space


def test_a_pack_that_is_being_written_is_left_alone(name: str, data: Path, storage: Path) -> None:
    split = opened(name, data)
    slow: Any = Slow(split)
    writer = multiprocessing.get_context("fork").Process(target=stage, args=(slow, selection(name, split, 1), storage))
    writer.start()
    try:
        while not remains(storage):
            time.sleep(0.01)
        stage(split, selection(name, split), storage)
        assert len(remains(storage)) == 1
        writer.join()
        assert writer.exitcode == 0
        assert len(visible(storage)) == 2 and not remains(storage)
    finally:
        writer.kill()


def test_a_sample_that_cannot_be_read_is_named_and_nothing_is_left(pictures: Path, storage: Path) -> None:
    split = opened("imagenet", pictures)
    wanted = selection("imagenet", split)
    victim = sorted(pictures.glob("train/*/*.JPEG"))[int(np.flatnonzero(wanted.needed)[5])]
    victim.unlink()  # after the files were listed
    with pytest.raises(DataError, match=f"{victim.name}.*cannot be read: no such file"):
        stage(split, wanted, storage)
    assert not visible(storage) and not remains(storage)


@pytest.mark.parametrize("loader_workers", [0, 2])
def test_batches_of_staged_samples_are_the_same_whoever_reads_them(
    name: str, data: Path, storage: Path, loader_workers: int
) -> None:
    split = opened(name, data)
    staged = StagedSplit(split, staged_for(name, data, storage).pack)
    rows = np.random.default_rng(5).integers(0, NUM_TRAIN, (6, 4))
    seeds = np.random.default_rng(6).integers(1, 1000, (6, 4))

    def taken(of: StoredSplit) -> list[torch.Tensor]:
        readers = Readers([of], CHANGES[name], loader_workers)
        batches = StreamedBatches(Streamed(of, readers), torch.device("cpu"), channels_last=False)
        return [samples for samples, _ in batches.take(rows, seeds)]

    assert all(torch.equal(a, b) for a, b in zip(taken(staged), taken(split), strict=True))


def test_a_changed_byte_that_a_reading_process_finds_ends_the_epoch_with_its_name(
    name: str, data: Path, storage: Path
) -> None:
    split, needed = opened(name, data), needed_by(0)
    pack = staged_for(name, data, storage).pack
    bad = int(np.flatnonzero(needed)[2])
    flip_a_byte(pack, bad, needed, split)
    staged = StagedSplit(split, pack)
    readers = Readers([staged], "none", 1)
    batches = StreamedBatches(Streamed(staged, readers), torch.device("cpu"), channels_last=False)
    with pytest.raises(DataError, match=rf"sample {bad}: its bytes do not match their checksum"):
        list(batches.take(np.flatnonzero(needed)[:4].reshape(1, 4), None))
    assert not pack.folder.complete.exists()


def test_a_staged_split_can_be_sent_to_another_process(name: str, data: Path, storage: Path) -> None:
    staged = StagedSplit(opened(name, data), staged_for(name, data, storage).pack)
    copy = pickle.loads(pickle.dumps(staged))
    assert np.array_equal(copy.read(0, "none", 0), staged.read(0, "none", 0))


def test_a_worker_that_does_not_see_its_nodes_pack_says_so(
    name: str, data: Path, storage: Path, tmp_path: Path
) -> None:
    split = opened(name, data)
    stage(split, selection(name, split), storage)
    assert find_pack(selection(name, split), storage).record.of_samples == NUM_TRAIN
    with pytest.raises(StorageError, match=r"does not exist.*that all workers of a node share"):
        find_pack(selection(name, split), tmp_path)


@pytest.fixture
def small_storage(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB."""
    with small_disk_on(tmp_path / "small", mebibytes=2) as disk:
        yield disk


def test_too_little_space_is_refused_before_anything_is_written(name: str, data: Path, small_storage: Path) -> None:
    with pytest.raises(StorageError) as refused:
        staged_for(name, data, small_storage)
    needed = int(np.count_nonzero(needed_by(0)))
    assert f"{small_storage} has 2 MiB free, but the {needed} samples to be staged take about" in str(refused.value)
    assert "launch.stage=none" in str(refused.value) and "\n" not in str(refused.value)
    assert not visible(small_storage) and not remains(small_storage)


class Filling(Slow):
    """A split during whose reading somebody else fills the disk."""

    filler: Path

    def raw(self, index: int) -> Any:
        if not self.filler.exists():
            with self.filler.open("wb", buffering=0) as file:
                try:
                    while file.write(b"\1" * 4096):
                        pass
                except OSError:
                    pass
        return self._split.raw(index)


def test_a_disk_that_fills_up_meanwhile_leaves_nothing_half_written(data: Path, name: str, small_storage: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=32m", small_storage], check=True)
    split = opened(name, data)
    filling: Any = Filling(split)
    filling.filler = small_storage / "filler"
    with pytest.raises(StorageError, match="became full while staging") as refused:
        stage(filling, selection(name, split), small_storage)
    assert is_disk_full(refused.value) and "\n" not in str(refused.value)
    assert visible(small_storage) == ["filler"] and not remains(small_storage)
    filling.filler.unlink()
    assert not stage(split, selection(name, split), small_storage).reused


def test_the_completion_record_says_what_the_pack_holds(originals: dict[str, Path], storage: Path) -> None:
    pack = staged_for("imagenet", originals["imagenet"], storage).pack
    record = json.loads((pack.folder.path / "complete.json").read_text())
    assert record["fingerprint"] == opened("imagenet", originals["imagenet"]).fingerprint()
    assert (record["num_samples"], record["of_samples"]) == (int(np.count_nonzero(needed_by(0))), NUM_TRAIN)
