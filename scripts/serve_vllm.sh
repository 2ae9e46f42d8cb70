#!/usr/bin/env bash
# Serve a checkpoint with vLLM: bash scripts/serve_vllm.sh CHECKPOINT [--port N] [--name NAME] [-- VLLM ARGUMENTS]
# All options: --help. What it does: scripts/serve.py.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
python="$(bash "$root/scripts/setup.sh" python)"
PYTHONPATH="$root" exec "$python" -P -m scripts.serve start "$@"
