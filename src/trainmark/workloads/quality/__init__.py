"""How good predictions are (more is better, as Eq. 8 wants), and how members' become the ensemble's; numpy only."""
