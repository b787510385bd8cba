"""The datasets, read from files or generated from a seed. Registered in spec/registries.py."""
