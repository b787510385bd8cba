"""Life: when an event is born and dies, and how strong it is in between."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Life:
    """A span of days; strength rises from 0 to 1 and falls again, fast at both ends."""

    birth_day: float
    num_days: float

    def age_days(self, day: float) -> float:
        """Days since birth; negative before it."""
        return day - self.birth_day

    def strength(self, day: float) -> float:
        """Share of the peak, 0 … 1."""
        share = self.age_days(day) / self.num_days
        return math.sin(math.pi * share) ** 0.6 if 0 < share < 1 else 0.0
