"""The metrics, one file each: UNIT, BETTER and a pure `compute(measured)`. Named in spec/registries.py."""
