#!/usr/bin/env bash
# Stop a server that serve_vllm.sh --background started: bash scripts/stop_vllm.sh PID_FILE
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
python="$(bash "$root/scripts/setup.sh" python)"
PYTHONPATH="$root" exec "$python" -P -m scripts.serve stop "$@"
