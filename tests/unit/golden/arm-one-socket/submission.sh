#!/bin/bash
#SBATCH --job-name=RUN
#SBATCH --comment=submission-1
#SBATCH --account=eval
#SBATCH --partition=arm
#SBATCH --time=00:30:00
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=12
#SBATCH --threads-per-core=1
#SBATCH --mem=0
#SBATCH --signal=USR2@120
#SBATCH --open-mode=append
#SBATCH --exclusive
#SBATCH --no-requeue
#SBATCH --array=0-2
# Run RUN: 3 members, each by its own job.sh.
members=(0000 0001 0002)
attempts=(1 1 1)
task=$SLURM_ARRAY_TASK_ID
exec /bin/bash /shared/runs/RUN/jobs/"${members[task]}"/job.sh "${attempts[task]}"
