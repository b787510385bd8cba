#!/bin/bash
#SBATCH --job-name=RUN
#SBATCH --comment=submission-1
#SBATCH --account=ai500
#SBATCH --partition=gpu
#SBATCH --time=24:00:00
#SBATCH --nodes=8
#SBATCH --ntasks=32
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=15
#SBATCH --threads-per-core=1
#SBATCH --mem=0
#SBATCH --gres=gpu:a100:4
#SBATCH --signal=USR2@120
#SBATCH --open-mode=append
#SBATCH --exclusive
#SBATCH --no-requeue
# Run RUN: 4 members in one allocation.
jobs=/shared/runs/RUN/jobs
# Start barrier: the first member of each lane starts once all of them are ready.
(
module load apptainer/1.3
apptainer exec --nv --bind /shared,/local /shared/images/trainmark.sif /opt/venv/bin/python -P -m trainmark.launch.start_barrier /shared/runs/RUN 0:1 1:1 2:1 3:1
) &
# lane 0: nodes 0 to 1 of the allocation
(
  TRAINMARK_WAIT_FOR_START=1 /bin/bash "$jobs"/0000/job.sh 1 --exact --relative=0 --mem=503808M
) &
# lane 1: nodes 2 to 3 of the allocation
(
  TRAINMARK_WAIT_FOR_START=1 /bin/bash "$jobs"/0001/job.sh 1 --exact --relative=2 --mem=503808M
) &
# lane 2: nodes 4 to 5 of the allocation
(
  TRAINMARK_WAIT_FOR_START=1 /bin/bash "$jobs"/0002/job.sh 1 --exact --relative=4 --mem=503808M
) &
# lane 3: nodes 6 to 7 of the allocation
(
  TRAINMARK_WAIT_FOR_START=1 /bin/bash "$jobs"/0003/job.sh 1 --exact --relative=6 --mem=503808M
) &
wait
