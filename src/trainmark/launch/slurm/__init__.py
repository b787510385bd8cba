"""Members as Slurm jobs: scripts, submissions, the queue, and how each job ended."""
