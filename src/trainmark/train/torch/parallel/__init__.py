"""Parallel modes: how a member's workers split its model and data. Registered in spec/registries.py."""
