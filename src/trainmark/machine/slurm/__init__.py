"""Reading Slurm: its commands, and the nodes, partitions and settings that they report."""
