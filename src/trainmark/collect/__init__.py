"""Events → Result: steady state, statistics, scores and the ensemble's prediction; no torch."""
