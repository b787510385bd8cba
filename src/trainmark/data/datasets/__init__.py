"""The datasets; each module reads, or makes from a seed, one of them. Named in spec/registries.py."""
