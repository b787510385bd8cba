"""How good predictions are, and how members' predictions become the ensemble's; numpy only."""
