"""What each rank runs: `python -m trainmark.train.worker`, started by name; nothing imports it."""
