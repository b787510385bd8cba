"""Sizes and shapes of generated artworks, spread as the batches of HRVS's Table 1 are."""

import numpy as np
from numpy.typing import NDArray

SMALLEST_SIDE = 32
MEAN_LOG_ASPECT, DEVIATION_LOG_ASPECT = 0.057, 0.42  # of height over width
DEVIATION_LOG_PIXELS = 0.44
MOST_DEVIATIONS = 4.0


def artwork_shapes(count: int, mean_megapixels: float, random: np.random.Generator) -> NDArray[np.int64]:
    """Heights and widths, (count, 2): log-normal megapixels of that mean, log-normal aspect ratios.

    Random batches then have total over informative pixels of 4.07 (batches of 32, shorter side 500) and 1.78 (batches
    of 4, as they are). The first ones are the same for any count.
    """
    drawn = np.clip(random.standard_normal((count, 2)), -MOST_DEVIATIONS, MOST_DEVIATIONS)
    mean_log = np.log(mean_megapixels * 1e6) - DEVIATION_LOG_PIXELS**2 / 2  # so that the mean is that of pixels
    log_pixels = mean_log + DEVIATION_LOG_PIXELS * drawn[:, 0]
    log_aspect = MEAN_LOG_ASPECT + DEVIATION_LOG_ASPECT * drawn[:, 1]
    sides = np.exp((log_pixels[:, None] + np.stack([log_aspect, -log_aspect], axis=1)) / 2)
    shapes: NDArray[np.int64] = np.maximum(SMALLEST_SIDE, np.rint(sides)).astype(np.int64)
    return shapes
