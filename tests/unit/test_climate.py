"""The simulated climate: storms turn the right way, boxes hold their events, and weather goes on from step to step."""

import numpy as np
import pytest

from trainmark.data.climate.events import KINDS, Calendar
from trainmark.data.climate.fields import Background, Waves
from trainmark.data.climate.grid import AT, CHANNELS, CLASSES, NUM_CHANNELS, Array, Box, Grid
from trainmark.data.climate.rivers import River
from trainmark.data.climate.storms import Life, Storm, depth_of_wind_pa
from trainmark.data.climate.year import Climate, Year
from trainmark.data.climate.years import channel_statistics, chosen_samples

TINY, REAL = Grid(64, 96), Grid(768, 1152)
GRIDS = pytest.mark.parametrize("grid", [Grid(48, 64), TINY, REAL], ids=["smallest", "tiny", "real"])


def storm(*, latitude: float, longitude: float = 180, wind_m_s: float = 40, is_tropical: bool = True) -> Storm:
    """One that is at its peak, and at its place of birth, on day 0 … 2."""
    return Storm(
        life=Life(-1, 2),
        is_tropical=is_tropical,
        latitude=latitude,
        longitude=longitude,
        north_deg_per_day=0,
        east_deg_per_day=0,
        radius_deg=20,
        core=0.42,
        peak_wind_m_s=wind_m_s,
        turn_rad=0,
    )


def river(hemisphere: int, longitude: float = 120) -> River:
    return River(
        life=Life(-2, 4),
        foot_latitude=hemisphere * 15,
        foot_longitude=longitude,
        reach_deg=hemisphere * 30,
        span_deg=45,
        bend_deg=5,
        half_width_deg=5,
        east_deg_per_day=6,
        peak_moisture_kg_m2=20,
        peak_wind_m_s=15,
    )


def drawn(event: Storm | River, grid: Grid, day: float = 0) -> Array:
    """What an event changes."""
    image = np.zeros((NUM_CHANNELS, grid.height, grid.width), np.float32)
    event.draw(image, day, grid)
    return image


def pixel(values: Array, place: int) -> tuple[int, int]:
    row, column = np.unravel_index(place, values.shape)
    return int(row), int(column)


def is_inside(where: tuple[int, int], box: Box) -> bool:
    return box[0] <= where[0] < box[2] and box[1] <= where[1] < box[3]


def test_channels_and_classes_are_those_of_the_dataset_in_its_order() -> None:
    names = "PRECT PS PSL QREFHT T200 T500 TMQ TREFHT TS U850 UBOT V850 VBOT Z100 Z200 ZBOT"
    assert " ".join(channel.name for channel in CHANNELS) == names
    assert CLASSES == ("tropical depression", "tropical cyclone", "extratropical cyclone", "atmospheric river")


def test_rows_go_from_south_to_north_and_columns_eastwards() -> None:
    grid = Grid(60, 72)  # 3° × 5°
    assert grid.latitudes[[0, -1]].tolist() == [-88.5, 88.5]
    assert grid.longitudes[[0, -1]].tolist() == [2.5, 357.5]


def test_a_box_holds_its_region_and_is_cut_off_at_the_edge() -> None:
    grid = Grid(60, 72)
    # Rows (−10 + 90)/3 = 26.7 and (10 + 90)/3 = 33.3; columns 100/5 = 20 and 121/5 = 24.2.
    assert grid.box(-10, 10, 100, 121) == (26, 20, 34, 25)
    # The middle is at 355°, so the part east of 360° is cut off; at 365° = 5° the part west of 0°.
    assert grid.box(-10, 10, 345, 365) == (26, 69, 34, 72)
    assert grid.box(-10, 10, 355, 375) == (26, 0, 34, 3)
    assert grid.box(80, 100, 100, 121)[2] == 60


def test_depth_follows_atkinson_and_holliday() -> None:
    # 6.7 · 10^0.644 = 29.52 knots = 15.18 m/s for 10 hPa.
    assert depth_of_wind_pa(15.184) == pytest.approx(1000, rel=1e-3)


@pytest.mark.parametrize(("hemisphere", "sense"), [(1, 1), (-1, -1)])
@pytest.mark.parametrize("is_tropical", [True, False])
@pytest.mark.parametrize("level", ["850", "BOT"])
def test_winds_go_round_a_low_counter_clockwise_in_the_north_only(
    hemisphere: int, sense: int, is_tropical: bool, level: str
) -> None:
    image = drawn(storm(latitude=hemisphere * 30, is_tropical=is_tropical), TINY)
    # Longitude 180° is between columns 47 and 48; rows of 2.8125°: latitude ±30° lies in row 42 or 21.
    east, north = image[AT[f"U{level}"]], image[AT[f"V{level}"]]
    row = 42 if hemisphere == 1 else 21
    assert sense * north[row, 50] > 5 and sense * north[row, 45] < -5  # east of the middle northwards, west southwards
    assert sense * east[row + 3, 47] < -5 and sense * east[row - 3, 47] > 5  # north of it westwards, south eastwards


def test_wind_is_strongest_at_the_core_and_as_strong_as_stated() -> None:
    image = drawn(storm(latitude=20, wind_m_s=40), REAL)
    speed = np.hypot(image[AT["U850"]], image[AT["V850"]])
    assert speed.max() == pytest.approx(40, rel=0.01)
    row, column = pixel(speed, int(speed.argmax()))
    away = np.hypot(REAL.latitudes[row] - 20, (REAL.longitudes[column] - 180) * np.cos(np.radians(20)))
    assert away == pytest.approx(0.42 * 20, abs=0.5)


@GRIDS
@pytest.mark.parametrize("latitude", [-50, -12, 12, 50])
@pytest.mark.parametrize("longitude", [0.5, 180, 359.5])
def test_a_storms_box_holds_its_lowest_pressure(grid: Grid, latitude: float, longitude: float) -> None:
    event = storm(latitude=latitude, longitude=longitude)
    pressure = drawn(event, grid)[AT["PSL"]]
    assert is_inside(pixel(pressure, int(pressure.argmin())), event.box(0, grid))
    assert -depth_of_wind_pa(40) <= pressure.min() < -0.9 * depth_of_wind_pa(40)


@GRIDS
@pytest.mark.parametrize("hemisphere", [1, -1])
def test_a_rivers_box_holds_it_all_and_wind_blows_along_it_polewards(grid: Grid, hemisphere: int) -> None:
    event = river(hemisphere)
    image = drawn(event, grid)
    wet = image[AT["TMQ"]]
    rows, columns = np.nonzero(wet > 0.37 * wet.max())  # e^-1 of the peak is half a width away
    ymin, xmin, ymax, xmax = event.box(0, grid)
    assert ymin <= rows.min() and rows.max() < ymax and xmin <= columns.min() and columns.max() < xmax
    # No pixel more than its geometry needs: 30° + 2 · 5° high.
    assert (ymax - ymin) * grid.degrees_per_row <= 40 + 2 * grid.degrees_per_row
    wettest = pixel(wet, int(wet.argmax()))
    assert image[AT["U850"]][wettest] > 0 and hemisphere * image[AT["V850"]][wettest] > 0


def test_a_river_across_the_edge_is_drawn_on_both_sides_and_boxed_on_the_side_of_its_middle() -> None:
    image = drawn(river(1, longitude=330), TINY)[AT["TMQ"]]  # its middle is at 330 + 22.5 + 6 · 2 (drift) = 4.5°
    assert image[:, :10].max() > 5 and image[:, -10:].max() > 5
    _, xmin, _, xmax = river(1, longitude=330).box(0, TINY)
    assert xmin == 0 and xmax < 48


def test_a_warm_core_is_warm_aloft_and_a_cold_core_cold() -> None:
    for is_tropical, sign in ((True, 1), (False, -1)):
        image = drawn(storm(latitude=40, is_tropical=is_tropical), TINY)
        row, column = 46, 47  # (40 + 90) / 2.8125 = 46.2
        assert sign * image[AT["T500"]][row, column] > 1
        assert sign * image[AT["Z200"]][row, column] > 10


def test_a_tropical_storms_class_is_its_winds() -> None:
    assert [storm(latitude=20, wind_m_s=wind).category(0) for wind in (7.9, 8.0, 17.4, 17.5, 60)] == [None, 0, 0, 1, 1]
    assert storm(latitude=45, is_tropical=False).category(0) == 2
    assert river(1).category(0) == 3
    assert river(1).category(-1.99) is None  # just born


def test_a_life_rises_and_falls_and_has_an_end() -> None:
    life = Life(birth_day=3, num_days=4)
    assert [life.strength(day) for day in (2, 3, 5, 7, 8)] == [0, 0, 1, 0, 0]
    assert life.strength(4) == pytest.approx(life.strength(6)) == pytest.approx(0.5**0.3)  # sin 45° = 0.5^0.5
    # Every 12 hours: steps 6 and 14 are birth and death.
    assert Calendar(num_steps=12, step_hours=12).steps(life) == range(7, 12)
    assert Calendar(num_steps=99, step_hours=12).steps(life) == range(7, 14)


@GRIDS
def test_events_of_every_kind_fit_any_grid_and_are_wide_enough_to_be_found(grid: Grid) -> None:
    random = np.random.default_rng(1)
    shorter = []
    for kind in KINDS:
        for _ in range(25):
            event = kind.begin(Life(0, 5), grid, random)
            ymin, xmin, ymax, xmax = event.box(2.5, grid)
            assert 0 <= ymin < ymax <= grid.height and 0 <= xmin < xmax <= grid.width
            assert np.isfinite(drawn(event, grid, 2.5)).all()
            shorter.append(min(ymax - ymin, xmax - xmin))
    assert np.mean(np.array(shorter) >= 8) > 0.9


def test_waves_have_the_stated_size_and_travel() -> None:
    fields = np.stack([Waves(np.random.default_rng(seed), TINY, 1, 8).at(0) for seed in range(40)])
    assert fields.mean() == pytest.approx(0, abs=0.1)
    assert fields.std() == pytest.approx(1, abs=0.1)
    waves = Waves(np.random.default_rng(0), TINY, 8, 20)
    assert 0.01 < np.abs(waves.at(0.25) - waves.at(0)).mean() < 0.5 < np.abs(waves.at(20) - waves.at(0)).mean()


def test_slopes_of_waves_are_their_differences() -> None:
    waves = Waves(np.random.default_rng(3), REAL, 1, 8)
    field, (east, north) = waves.at(5).astype(np.float64), waves.slopes(5)
    step_east, step_north = 2 * np.radians(360 / 1152), 2 * np.radians(180 / 768)
    assert np.allclose((np.roll(field, -1, 1) - np.roll(field, 1, 1)) / step_east, east, atol=0.02)
    assert np.allclose((field[2:] - field[:-2]) / step_north, north[1:-1], atol=0.02)


def test_the_background_is_warm_and_wet_at_the_equator_with_trades_and_westerlies() -> None:
    image = Background(TINY, np.random.default_rng(1), np.random.default_rng(2), eddy_strength=0).image(0)
    by_row = image.mean(2)
    equator, pole, middle_latitudes, tropics = 32, 0, [15, 48], [27, 36]
    for name in ("TS", "T500", "TMQ", "QREFHT", "Z200"):
        assert by_row[AT[name], equator] > by_row[AT[name], pole]
    assert (by_row[AT["U850"], tropics] < 0).all() and (by_row[AT["U850"], middle_latitudes] > 0).all()
    assert 95_000 < image[AT["PSL"]].min() < image[AT["PSL"]].max() < 105_000


def climate(**changes: float) -> Climate:
    settings = {"height": 64, "width": 96, "seed": 1, "step_hours": 6, "events_per_sample": 7.0, "noise": 1.0}
    return Climate(**{**settings, **changes})  # type: ignore[arg-type]


def test_weather_goes_on_from_step_to_step() -> None:
    year = Year(climate(noise=0), "a", (0, 1), 40)
    near = np.abs(year.image(11) - year.image(10)).mean((1, 2))
    far = np.abs(year.image(39) - year.image(10)).mean((1, 2))
    assert (near < far).all()
    kept = 0
    for before, after in zip(year.boxes[:-1], year.boxes[1:], strict=True):
        for box in after[after[:, 4] >= 0]:
            moved = np.abs(before[:, :4] - box[:4]).max(1)
            kept += bool((moved[before[:, 4] >= 0] <= 3).any())
    assert kept / (year.boxes[1:, :, 4] >= 0).sum() > 0.8


def test_a_sample_has_at_most_fifteen_boxes_and_the_rest_is_padding() -> None:
    boxes = Year(climate(height=256, width=384, events_per_sample=40.0), "a", (0, 1), 60).boxes
    counts = (boxes[..., 4] >= 0).sum(1)
    assert counts.max() <= 15 and counts.mean() > 10
    padding = boxes[boxes[..., 4] < 0]
    assert (padding == -1).all()
    assert all((row[:count, 4] >= 0).all() for row, count in zip(boxes, counts, strict=True))


def test_all_classes_occur_about_equally_often() -> None:
    classes = Year(climate(step_hours=24), "a", (0, 1), 365).boxes[..., 4]
    shares = np.array([(classes == number).sum() for number in range(4)]) / (classes >= 0).sum()
    assert (shares > 0.15).all() and 4 < (classes >= 0).sum() / 365 < 7


def test_each_tropical_cyclone_is_a_hole_in_the_pressure_inside_its_box() -> None:
    year = Year(climate(noise=0, step_hours=24), "a", (0, 1), 60)
    depths = []
    for step, boxes in enumerate(year.boxes):
        pressure = year.image(step)[AT["PSL"]]
        for ymin, xmin, ymax, xmax, _ in boxes[boxes[:, 4] == 1].astype(int):
            inside = pressure[ymin:ymax, xmin:xmax]
            rim = np.concatenate([inside[0], inside[-1]])
            depths.append(np.median(rim) - inside.min())
    assert len(depths) > 30
    assert np.mean(np.array(depths) > 500) > 0.95


def test_the_same_year_is_the_same_and_another_seed_split_or_year_is_not() -> None:
    first = Year(climate(), "a", (0, 1979), 5)
    again = Year(climate(), "a", (0, 1979), 5)
    again.image(0)  # any step can be made on its own, in any order
    assert np.array_equal(first.image(3), again.image(3)) and np.array_equal(first.boxes, again.boxes)
    for other in (
        Year(climate(seed=2), "a", (0, 1979), 5),
        Year(climate(), "a", (1, 1979), 5),
        Year(climate(), "a", (0, 1980), 5),
    ):
        assert not np.array_equal(first.image(3), other.image(3))
        assert not np.array_equal(first.boxes, other.boxes)


def test_years_share_their_geography() -> None:
    quiet = climate(noise=0, events_per_sample=0)
    grounds = []
    for number in (1979, 1980):
        image = Year(quiet, "a", (0, number), 1).image(0)
        grounds.append(image[AT["PS"]] / image[AT["PSL"]])
    assert np.allclose(*grounds, atol=1e-5) and grounds[0].min() < 0.97


def test_water_is_never_negative() -> None:
    image = Year(climate(noise=5), "a", (0, 1), 1).image(0)
    assert all(image[AT[name]].min() == 0 for name in ("PRECT", "QREFHT", "TMQ"))


def test_statistics_come_from_samples_spread_over_the_year() -> None:
    # 16 · 768 · 1152 values: 64 Mi values would be 4 samples, at least 8 are taken.
    assert chosen_samples(1460, 16 * 768 * 1152) == [0, 182, 365, 547, 730, 912, 1095, 1277]
    assert chosen_samples(128, 16 * 64 * 96) == list(range(0, 128, 2))
    assert chosen_samples(3, 16 * 64 * 96) == [0, 1, 2]


def test_statistics_are_means_and_standard_deviations_by_channel() -> None:
    samples = np.zeros((2, 3, 4, 5), np.float32)
    samples[:, 0] = 101_325  # never changes
    samples[:, 1] = np.array([10, 20])[:, None, None]  # mean 15, deviation 5
    samples[:, 2, :2] = 6  # half 6, half 0
    found = channel_statistics(lambda index: samples[index], [0, 1])
    assert found.offset.tolist() == [101_325, 15, 3]
    assert found.scale.tolist() == [1, 5, 3]
    assert found.offset.dtype == found.scale.dtype == np.float32
