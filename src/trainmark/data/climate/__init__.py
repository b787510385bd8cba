"""Simulated weather on a latitude–longitude grid, its extreme events, and files of years of it."""
