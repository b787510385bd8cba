"""Slurm as a source of facts: its programs, and the nodes, partitions and settings that they tell of."""
