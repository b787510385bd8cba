#!/bin/bash
#SBATCH --job-name=RUN
#SBATCH --comment=submission-1
#SBATCH --account=hpcbench
#SBATCH --qos=normal
#SBATCH --partition=standard
#SBATCH --time=12:00:00
#SBATCH --nodes=1
#SBATCH --ntasks=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=32
#SBATCH --threads-per-core=1
#SBATCH --mem=0
#SBATCH --signal=USR2@120
#SBATCH --open-mode=append
#SBATCH --exclusive
#SBATCH --no-requeue
#SBATCH --constraint=icelake
#SBATCH --array=0-7
# Run RUN: 8 members, each by its own job.sh.
members=(0000 0001 0002 0003 0004 0005 0006 0007)
attempts=(1 1 1 1 1 1 1 1)
task=$SLURM_ARRAY_TASK_ID
exec /bin/bash /shared/runs/RUN/jobs/"${members[task]}"/job.sh "${attempts[task]}"
