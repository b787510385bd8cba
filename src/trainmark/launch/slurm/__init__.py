"""Members as jobs of Slurm: scripts, submissions, the queue, and what became of each job."""
