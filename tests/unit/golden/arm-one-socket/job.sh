#!/bin/bash
#SBATCH --job-name=RUN
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
# Run RUN, member 0: 1 worker(s) on 1 node(s).
# Usage: job.sh [ATTEMPT [OPTIONS OF SRUN]]
attempt=${1:-1}
shift
folder=/shared/runs/RUN/jobs/0000/attempt-$attempt
mkdir -p "$folder"
exec >>"$folder/job.log" 2>&1
if [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]; then
  echo "Slurm has requeued this job; trainmark makes a new attempt instead" >&2
  echo 75 >"$folder/status"
  exit 75
fi
in_setup=${#BASH_SOURCE[@]}
trap 'status=$?; [ "$in_setup" != ${#BASH_SOURCE[@]} ] || echo "trainmark: setup failed with exit code $status: $BASH_COMMAND" >&2' ERR
trap 'status=$?; [ -z "$in_setup" ] || { echo "trainmark: setup failed with exit code $status: $BASH_COMMAND" >&2; echo "$status" >"$folder/status"; }' EXIT
module use /shared/modules/arm
module load gcc/13.2 openblas/0.3.26 python/3.11
source /shared/trainmark/venv-aarch64/bin/activate
set +e; in_setup=
srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=12 --threads-per-core=1 --cpu-bind=none --distribution=block:block --kill-on-bad-exit=1 --mpi=none --export=ALL --output=/shared/runs/RUN/jobs/0000/attempt-"$attempt"/rank-%t.log "$@" \
  env OMP_NUM_THREADS=6 MKL_NUM_THREADS=6 OPENBLAS_NUM_THREADS=6 PYTHONUNBUFFERED=1 /shared/trainmark/venv-aarch64/bin/python -P -m trainmark.train.worker /shared/runs/RUN/jobs/0000/job.json --rank slurm --attempt "$attempt"
status=$?
echo "$status" >"$folder/status"
exit "$status"
