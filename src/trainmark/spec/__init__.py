"""The records of one run, the units, the errors and the registry: what every other part speaks in."""
