"""What each rank runs, `python -m trainmark.train.worker`; launchers start it by name, nothing imports it."""
