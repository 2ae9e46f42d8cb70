#!/usr/bin/env bash
# One run on several nodes under Slurm, started by accelerate.
#   sbatch scripts/launch_slurm.sh CONFIG [key=value ...] [--resume]
#   bash scripts/launch_slurm.sh --dry-run CONFIG          # print each node's command and stop
# ACCELERATE=FILE: one of configs/accelerate (default ddp_8gpu.yaml; for full weights of 8B
# zero3_8gpu.yaml or fsdp2_8gpu.yaml). Submit from the repository's root, its environment active, on
# a disk that all nodes see. A job that is cut off goes on from its last checkpoint: submit it again
# with --resume. Not run on a cluster.
#SBATCH --job-name=beliefrl
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --time=24:00:00
#SBATCH --output=runs/slurm-%j.log
set -euo pipefail
refuse() { echo "error: $1" >&2; exit 2; }
dry=""
if [ "${1:-}" = --dry-run ]; then dry=1; shift; fi
[ $# -ge 1 ] || refuse "name a CONFIG, e.g. configs/train/qwen3_8b.yaml"
[ -f "$1" ] || refuse "$1: no such config"
engine="${ACCELERATE:-configs/accelerate/ddp_8gpu.yaml}"
[ -f "$engine" ] || refuse "ACCELERATE: $engine: no such file"
nodes="${SLURM_JOB_NUM_NODES:-2}"
gpus="${SLURM_GPUS_ON_NODE:-8}"
if [ -n "$dry" ]; then
  head="${MASTER_ADDR:-HEAD}"
else
  [ -n "${SLURM_JOB_ID:-}" ] || refuse "not within a Slurm job; sbatch $0 $*"
  head="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"
fi
command=(accelerate launch --config_file "$engine" --num_machines "$nodes"
  --num_processes "$((nodes * gpus))" --main_process_ip "$head" --main_process_port 29500
  --rdzv_backend static)
# Each node's own rank is known on the node only.
line="$(printf '%q ' "${command[@]}")--machine_rank \"\$SLURM_NODEID\" -m train $(printf '%q ' "$@")"
echo "srun bash -c '$line'"
[ -n "$dry" ] || exec srun --kill-on-bad-exit=1 bash -c "exec $line"
