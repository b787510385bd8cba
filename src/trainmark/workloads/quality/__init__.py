"""Quality of predictions (higher is better, as Eq. 8 requires) and combination of members'; numpy only."""
