#!/bin/bash
#SBATCH --job-name=RUN
#SBATCH --account=ai500
#SBATCH --partition=gpu
#SBATCH --time=24:00:00
#SBATCH --nodes=2
#SBATCH --ntasks=8
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=15
#SBATCH --threads-per-core=1
#SBATCH --mem=0
#SBATCH --gres=gpu:a100:4
#SBATCH --signal=USR2@120
#SBATCH --open-mode=append
#SBATCH --exclusive
#SBATCH --no-requeue
# Run RUN, member 0: 8 worker(s) on 2 node(s).
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
module load apptainer/1.3
set +e; in_setup=
srun --nodes=2 --ntasks=8 --ntasks-per-node=4 --cpus-per-task=15 --threads-per-core=1 --cpu-bind=cores --distribution=block:block --kill-on-bad-exit=1 --mpi=none --export=ALL --gres=gpu:a100:4 --output=/shared/runs/RUN/jobs/0000/attempt-"$attempt"/rank-%t.log "$@" \
  env OMP_NUM_THREADS=15 MKL_NUM_THREADS=15 OPENBLAS_NUM_THREADS=15 PYTHONUNBUFFERED=1 apptainer exec --nv --bind /shared,/local /shared/images/trainmark.sif /opt/venv/bin/python -P -m trainmark.train.worker /shared/runs/RUN/jobs/0000/job.json --rank slurm --attempt "$attempt" ${TRAINMARK_WAIT_FOR_START:+--wait-for-start}
status=$?
echo "$status" >"$folder/status"
exit "$status"
