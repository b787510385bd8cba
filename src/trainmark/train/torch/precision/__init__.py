"""The number formats of training arithmetic, one file each. Named in spec/registries.py."""
