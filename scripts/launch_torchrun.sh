#!/usr/bin/env bash
# One run on several nodes by torchrun alone; start it on every node with the node's own rank.
#   bash scripts/launch_torchrun.sh --nodes 2 --rank 0 --head node-0 CONFIG [key=value ...] [--resume]
#   bash scripts/launch_torchrun.sh --nodes 2 --rank 1 --head node-0 CONFIG [key=value ...] [--resume]
# --gpus N: on each node (8); --port N: of the rendezvous on the head (29500); --dry-run: print the
# command and stop. The run's folder must lie on a disk that all nodes see. Not run on two nodes.
set -euo pipefail
refuse() { echo "error: $1" >&2; exit 2; }
nodes=2 rank="" head="" gpus=8 port=29500 dry=""
while [ $# -gt 0 ]; do
  case "$1" in
    --nodes | --rank | --head | --gpus | --port)
      [ $# -ge 2 ] || refuse "$1 needs a value"
      printf -v "${1#--}" '%s' "$2"
      shift 2 ;;
    --dry-run) dry=1; shift ;;
    *) break ;;
  esac
done
[ $# -ge 1 ] || refuse "name a CONFIG, e.g. configs/train/qwen3_8b.yaml"
[ -n "$rank" ] || refuse "--rank is missing: the number of this node, from 0"
[ -n "$head" ] || refuse "--head is missing: the address of node 0"
[ -f "$1" ] || refuse "$1: no such config"
command=(torchrun --nnodes "$nodes" --node_rank "$rank" --nproc_per_node "$gpus"
  --rdzv_backend c10d --rdzv_id beliefrl --rdzv_endpoint "$head:$port" -m train "$@")
printf '%q ' "${command[@]}"; echo
[ -n "$dry" ] || exec "${command[@]}"
