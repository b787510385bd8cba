#!/bin/bash
#SBATCH --job-name=RUN
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
# Run RUN, member 0: 2 worker(s) on 1 node(s).
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
module purge
module load python/3.11 gperftools
source /shared/projects/trainmark/venv/bin/activate
set +e; in_setup=
srun --nodes=1 --ntasks=2 --ntasks-per-node=2 --cpus-per-task=32 --threads-per-core=1 --cpu-bind=cores --distribution=block:block --kill-on-bad-exit=1 --mpi=pmix --export=ALL --output=/shared/runs/RUN/jobs/0000/attempt-"$attempt"/rank-%t.log "$@" \
  env OMP_NUM_THREADS=32 MKL_NUM_THREADS=32 OPENBLAS_NUM_THREADS=32 PYTHONUNBUFFERED=1 /opt/envs/gcc12/bin/python /checkout/src/trainmark/launch/other_python.py trainmark.train.worker /shared/runs/RUN/jobs/0000/job.json --rank slurm --attempt "$attempt"
status=$?
echo "$status" >"$folder/status"
exit "$status"
