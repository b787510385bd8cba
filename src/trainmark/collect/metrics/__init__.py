"""The metrics, by subject: rows with a pure `compute(measured)`, registered in spec/registries.py."""
