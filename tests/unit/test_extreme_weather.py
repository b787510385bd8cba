"""ExtremeWeather: files in the real layout, read by any process, and every kind of damage found and named."""

import multiprocessing
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from pydantic import ValidationError

from trainmark.data.climate.year import Climate, Year
from trainmark.data.datasets.extreme_weather import ExtremeWeather, ExtremeWeatherSettings
from trainmark.data.split import StoredSplit
from trainmark.spec.errors import DataError

# 8760 h / 1460 h = 6 samples a year: 8 training samples are two files.
SMALL = {"num_train": 8, "num_eval": 5, "height": 48, "width": 64, "step_hours": 1460}


def silent(done: int, total: int) -> None:
    """Progress that nobody watches."""


def make(folder: Path, **settings: int) -> Path:
    ExtremeWeather(ExtremeWeatherSettings.model_validate({**SMALL, **settings})).make(folder, silent)
    return folder


def opened(folder: Path, eval_files: str = "") -> ExtremeWeather:
    return ExtremeWeather(ExtremeWeatherSettings(path=str(folder), eval_files=eval_files))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("weather") / "original")


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(original, tmp_path / "copy"))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_made_files_have_the_real_layout_and_nothing_else_is_left(original: Path) -> None:
    assert sorted(contents(original)) == ["eval/climo_2005.h5", "train/climo_1979.h5", "train/climo_1980.h5"]
    with h5py.File(original / "train" / "climo_1979.h5") as file:
        assert (file["images"].shape, file["images"].dtype) == ((6, 16, 48, 64), np.float32)
        assert (file["boxes"].shape, file["boxes"].dtype) == ((6, 15, 5), np.float32)
        assert file["images"].chunks == (1, 16, 48, 64)
        assert list(file["images"].attrs["channels"][:3]) == ["PRECT", "PS", "PSL"]
        assert list(file["boxes"].attrs["columns"]) == ["ymin", "xmin", "ymax", "xmax", "class"]
        assert "simulated" in file.attrs["source"]


def test_what_was_made_is_what_is_loaded(original: Path) -> None:
    split = opened(original).load("train")
    climate = Climate(height=48, width=64, seed=1, step_hours=1460, events_per_sample=7.0, noise=2.0)
    years = [Year(climate, "", (0, 1979), 6), Year(climate, "", (0, 1980), 2)]
    assert len(split) == 8 and split.sample_shape == (16, 48, 64)
    assert np.array_equal(split.labels, np.concatenate([year.boxes for year in years]))
    assert split.labels.dtype == np.float32
    for index, (year, step) in enumerate([(0, step) for step in range(6)] + [(1, 0), (1, 1)]):
        sample = split.read(index, "none", 0)
        assert sample.dtype == np.float32
        assert np.array_equal(sample, years[year].image(step))


@pytest.mark.parametrize("name", ["train", "eval"])
def test_boxes_lie_inside_the_image_and_padding_is_minus_one(original: Path, name: str) -> None:
    labels = opened(original).load(name).labels  # type: ignore[arg-type]
    boxes = labels[labels[..., 4] >= 0]
    assert len(boxes) > 5
    ymin, xmin, ymax, xmax, category = boxes.T
    assert (ymin >= 0).all() and (xmin >= 0).all() and (ymax <= 48).all() and (xmax <= 64).all()
    assert (ymax > ymin).all() and (xmax > xmin).all() and set(category) <= {0, 1, 2, 3}
    assert (labels[labels[..., 4] < 0] == -1).all()


def test_the_same_settings_make_the_same_bytes_and_another_seed_does_not(original: Path, tmp_path: Path) -> None:
    assert contents(make(tmp_path / "again")) == contents(original)
    other = contents(make(tmp_path / "other", seed=2))
    assert all(other[name] != data for name, data in contents(original).items())


def test_training_and_held_out_weather_differ(tmp_path: Path) -> None:
    dataset = opened(make(tmp_path / "a", num_train=5))
    train, held_out = dataset.load("train"), dataset.load("eval")
    assert not np.array_equal(train.read(0, "none", 0), held_out.read(0, "none", 0))


def test_progress_counts_every_sample(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    settings = ExtremeWeatherSettings.model_validate(SMALL)
    ExtremeWeather(settings).make(tmp_path / "a", lambda done, total: seen.append((done, total)))
    assert seen == [(done, 13) for done in range(1, 14)]


def test_an_interrupted_file_never_has_its_final_name(tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        if done == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ExtremeWeather(ExtremeWeatherSettings.model_validate(SMALL)).make(tmp_path, stop)
    assert sorted(contents(tmp_path)) == ["train/climo_1979.h5"]  # six samples: this one is whole


def test_a_full_disk_is_one_line_that_names_the_folder_and_leaves_nothing(tmp_path: Path) -> None:
    # Files of more than 400 kB cannot be written; one sample has 393 kB. In a process of its own, as that is for good.
    program = (
        "import resource\n"
        "from pathlib import Path\n"
        "from trainmark.data.datasets.extreme_weather import ExtremeWeather, ExtremeWeatherSettings\n"
        "from trainmark.data.folders import generate_into\n"
        "from trainmark.spec.errors import StorageError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))\n"
        "try:\n"
        "    generate_into(ExtremeWeather(ExtremeWeatherSettings(num_train=9)), Path('storms'), lambda *_: None)\n"
        "except StorageError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "storms cannot be written: file too large. Free some space, or choose another folder.\n"
    assert list(tmp_path.iterdir()) == []


def test_samples_are_counted_from_settings_before_and_from_files_after_making(original: Path) -> None:
    planned = ExtremeWeather(ExtremeWeatherSettings.model_validate(SMALL))
    made = opened(original)  # its own settings say 400 and 120
    for dataset in (planned, made):
        assert (dataset.num_samples("train"), dataset.num_samples("eval")) == (8, 5)
    with pytest.raises(DataError, match=r"data.path is not set"):
        planned.load("train")


def test_sizes_too_small_for_events_are_refused() -> None:
    for wrong in ({"height": 47}, {"width": 63}):
        with pytest.raises(ValidationError):
            ExtremeWeatherSettings.model_validate(wrong)


def test_planning_needs_neither_hdf5_nor_torch() -> None:
    code = (
        "import sys; from trainmark.data.datasets.extreme_weather import ExtremeWeather as E; "
        "print(E(E.Settings()).num_samples('train'), {'torch', 'h5py'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "400 set()\n"


def test_normalised_training_data_have_mean_0_and_deviation_1_and_both_splits_share_that(original: Path) -> None:
    dataset = opened(original)
    train, held_out = dataset.load("train"), dataset.load("eval")
    first_file = np.stack([train.read(index, "none", 0) for index in range(6)]).astype(np.float64)
    normal = (first_file - train.offset[:, None, None]) / train.scale[:, None, None]
    assert train.offset.shape == train.scale.shape == (16,)
    assert np.allclose(normal.mean((0, 2, 3)), 0, atol=1e-4)
    assert np.allclose(normal.std((0, 2, 3)), 1, atol=1e-4)
    assert np.array_equal(train.offset, held_out.offset) and np.array_equal(train.scale, held_out.scale)


def write_file(path: Path, num_steps: int, value: float = 1.0, **changes: object) -> Path:
    """A file in the real layout, with one good box a sample; `changes` replace its datasets, None leaves one out."""
    boxes = np.full((num_steps, 15, 5), -1, np.int32)  # whole numbers, as in the published files
    boxes[:, 0] = (4, 6, 20, 30, 2)
    datasets = {"images": np.full((num_steps, 16, 48, 64), value, np.float32), "boxes": boxes, **changes}
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for name, data in datasets.items():
            if data is not None:
                file[name] = data
    return path


@pytest.fixture
def download(tmp_path: Path) -> Path:
    """Three years as they are downloaded, of 2, 3 and 4 samples; the year is the value of every pixel."""
    for num_steps, year in ((2, 1979), (3, 1980), (4, 1981)):
        write_file(tmp_path / "download" / f"climo_{year}.h5", num_steps, year)
    return tmp_path / "download"


def years_of(split: StoredSplit) -> list[int]:
    return [int(split.read(index, "none", 0)[0, 0, 0]) for index in range(len(split))]


def test_a_download_is_split_by_years_and_the_last_is_held_out(download: Path) -> None:
    dataset = opened(download)
    assert (dataset.num_samples("train"), dataset.num_samples("eval")) == (5, 4)
    assert years_of(dataset.load("train")) == [1979, 1979, 1980, 1980, 1980]
    assert years_of(dataset.load("eval")) == [1981] * 4
    assert dataset.load("eval").labels[0, :2].tolist() == [[4, 6, 20, 30, 2], [-1] * 5]
    assert list(dataset.check()) == []


def test_the_held_out_years_of_a_download_can_be_chosen(download: Path) -> None:
    dataset = opened(download, "climo_1979.h5, climo_1981.h5")
    assert years_of(dataset.load("train")) == [1980] * 3
    assert years_of(dataset.load("eval")) == [1979] * 2 + [1981] * 4


def test_wrong_folders_are_refused_with_what_to_do(download: Path, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    shutil.rmtree(folder / "eval")
    for dataset, expected in (
        (opened(tmp_path / "nowhere"), r"no folder .*nowhere.*trainmark data make"),
        (opened(tmp_path / "empty"), r"neither train/ and eval/ nor \*.h5"),
        (opened(download, "climo_1999.h5"), r"climo_1999.h5, but .* It has climo_1979.h5, climo_1980.h5"),
        (opened(download, "climo_1979.h5,climo_1980.h5,climo_1981.h5"), r"All 3 .* none is left to train on"),
        (opened(folder), r"eval holds no \*.h5 file"),
    ):
        with pytest.raises(DataError, match=expected):
            dataset.num_samples("eval")
        assert any(problem.index is None for problem in dataset.check())


def truncate(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def put(path: Path, dataset: str, place: tuple[int, ...], value: float) -> None:
    with h5py.File(path, "r+") as file:
        file[dataset][place] = value


def test_a_folder_without_files_is_one_problem(tmp_path: Path) -> None:
    (problem,) = opened(tmp_path).check()
    assert "holds neither train/ and eval/ nor *.h5 files" in problem.what


def test_check_finds_every_problem_of_every_file_in_one_pass(folder: Path) -> None:
    train = folder / "train"
    truncate(train / "climo_1980.h5")
    (train / "climo_1981.h5").write_text("not HDF5 at all")
    write_file(train / "climo_1982.h5", 5)
    put(train / "climo_1982.h5", "images", (3, 6, 10, 20), np.nan)
    put(train / "climo_1982.h5", "images", (3, 6, 11, 20), np.inf)
    put(train / "climo_1982.h5", "images", (4, 2, 0, 0), np.inf)
    put(train / "climo_1982.h5", "boxes", (1, 0, 4), 7)
    put(train / "climo_1982.h5", "boxes", (2, 0, 2), 4)
    put(train / "climo_1982.h5", "boxes", (4, 0, 3), 65)
    write_file(train / "climo_1983.h5", 2, boxes=None)
    write_file(train / "climo_1984.h5", 2, images=None)
    write_file(train / "climo_1985.h5", 2, images=np.zeros((2, 15, 48, 64), np.float32))
    write_file(train / "climo_1986.h5", 2, images=np.zeros((2, 16, 48, 64), np.float64))
    write_file(train / "climo_1987.h5", 2, images=np.zeros((2, 16, 64, 96), np.float32))
    write_file(train / "climo_1988.h5", 2, boxes=np.full((3, 15, 5), -1, np.float32))
    write_file(folder / "eval" / "climo_2006.h5", 2, boxes=np.full((2, 15, 4), -1, np.float32))
    found = [(Path(problem.file).name[6:10], problem.index, problem.what) for problem in opened(folder).check()]
    expected = [
        ("1980", None, "truncated"),
        ("1981", None, "cannot be read"),
        ("1982", 1, "box 0: its class is 7, not one of 0 … 3"),
        ("1982", 2, "box 0: it is empty: y 4 … 4, x 6 … 30"),
        ("1982", 3, "2 values of TMQ are NaN or infinite"),
        ("1982", 4, "1 value of PSL is NaN or infinite"),
        ("1982", 4, "box 0: y 4 … 20, x 6 … 65 reach out of the image of 48 × 64"),
        ("1983", None, "no dataset 'boxes'"),
        ("1984", None, "no dataset 'images'"),
        ("1985", None, "2 × 15 × 48 × 64, not steps × 16"),
        ("1986", None, "float64, not float32"),
        ("1987", None, "64 × 96, those of earlier files 48 × 64"),
        ("1988", None, "boxes for 3 samples, but 2 images"),
        ("2006", None, "2 × 15 × 4, not steps × 15 × 5"),
    ]
    assert len(found) == len(expected), found
    for (year, index, what), (wanted_year, wanted_index, wanted) in zip(found, expected, strict=True):
        assert (year, index) == (wanted_year, wanted_index) and wanted in what, (year, index, what)


def test_a_sample_that_cannot_be_read_is_found_and_the_others_are_still_looked_at(folder: Path) -> None:
    path = folder / "train" / "climo_1979.h5"
    with h5py.File(path, "r+") as file:
        images = file["images"][()]
        boxes = file["boxes"][()]
    with h5py.File(path, "w") as file:
        # With checksums, which HDF5 verifies, so that a changed byte is damage.
        stored = file.create_dataset("images", data=images, chunks=(1, 16, 48, 64), fletcher32=True)
        file["boxes"] = boxes
        starts = [stored.id.get_chunk_info(index).byte_offset for index in (1, 4)]
    with path.open("r+b") as raw:
        for start in starts:
            raw.seek(start + 1000)
            raw.write(b"????")
    assert [problem.index for problem in opened(folder).check()] == [1, 4]
    with pytest.raises(DataError, match=r"climo_1979.h5, sample 4: cannot be read.*trainmark data check"):
        opened(folder).load("train").read(4, "none", 0)


def test_a_bad_sample_is_refused_by_file_and_index_and_good_ones_are_read(folder: Path) -> None:
    put(folder / "train" / "climo_1980.h5", "images", (1, 0, 0, 0), np.nan)
    split = opened(folder).load("train")
    split.read(6, "none", 0)
    # The eighth sample of the split is the second of its file.
    with pytest.raises(DataError, match=r"climo_1980.h5, sample 1: it holds NaN.*trainmark data check"):
        split.read(7, "none", 0)


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (truncate, r"climo_1980.h5 cannot be read: .*truncated.*trainmark data check"),
        (lambda path: put(path, "boxes", (1, 0, 4), 4), r"climo_1980.h5, sample 1: a box whose class is none of 0 … 3"),
        (lambda path: put(path, "boxes", (0, 3, 1), np.nan), r"climo_1980.h5, sample 0"),
        (lambda path: write_file(path, 2, boxes=None), r"climo_1980.h5 has no readable dataset 'boxes'"),
        (lambda path: write_file(path, 2, images=None), r"climo_1980.h5 has no readable dataset 'images'"),
        (lambda path: write_file(path, 2, images=np.zeros((2, 16, 64, 96), np.float32)), r"differ in shape.*64, 96"),
        (lambda path: write_file(path, 2, images=np.zeros((16, 48, 64), np.float32)), r"its images are \(16, 48, 64\)"),
        (lambda path: write_file(path, 2, boxes=np.zeros((3, 15, 5))), r"its boxes are \(3, 15, 5\)"),
    ],
)
def test_a_split_with_a_damaged_file_is_refused(folder: Path, damage: Callable[[Path], object], expected: str) -> None:
    damage(folder / "train" / "climo_1980.h5")
    with pytest.raises(DataError, match=expected):
        opened(folder).load("train")


def test_the_fingerprint_tells_other_data_but_not_other_places(original: Path, folder: Path) -> None:
    print_of = {name: opened(original).load(name).fingerprint() for name in ("train", "eval")}  # type: ignore[arg-type]
    assert print_of["train"] != print_of["eval"]
    assert opened(folder).load("train").fingerprint() == print_of["train"]
    put(folder / "train" / "climo_1979.h5", "images", (0, 0, 0, 0), 1.0)
    changed = opened(folder).load("train").fingerprint()
    put(folder / "train" / "climo_1980.h5", "boxes", (1, 14, 0), -2)
    other_box = opened(folder).load("train").fingerprint()
    (folder / "train" / "climo_1980.h5").rename(folder / "train" / "climo_1999.h5")
    assert len({print_of["train"], changed, other_box, opened(folder).load("train").fingerprint()}) == 4


def first_values(split: StoredSplit, indices: list[int]) -> list[float]:
    return [float(split.read(index, "none", 0)[0].sum()) for index in indices]


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_other_processes_read_the_split_that_this_one_has_open(original: Path, start: str) -> None:
    split = opened(original).load("train")
    indices = list(range(8)) * 3
    expected = first_values(split, indices)  # the files are open now
    with multiprocessing.get_context(start).Pool(2) as pool:
        found = [pool.apply_async(first_values, (split, indices)) for _ in range(2)]
        assert first_values(split, indices) == expected
        assert [each.get(60) for each in found] == [expected] * 2
    assert first_values(split, indices) == expected


def test_a_forked_process_uses_the_parents_split_without_a_copy(original: Path) -> None:
    split = opened(original).load("train")
    expected = first_values(split, [0, 7])
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    process = context.Process(target=lambda: queue.put(first_values(split, [0, 7])))
    process.start()
    assert queue.get() == expected
    process.join(60)
    assert process.exitcode == 0 and first_values(split, [0, 7]) == expected


def test_a_split_can_be_sent_to_another_process(original: Path) -> None:
    split = opened(original).load("train")
    split.read(0, "none", 0)
    copy = pickle.loads(pickle.dumps(split))
    assert np.array_equal(copy.read(7, "none", 0), split.read(7, "none", 0))
