#!/usr/bin/env bash
# What no CPU test can show, on one card, in under 8 minutes, without a network: bash scripts/gpu_check.sh
# Without a GPU it says so and ends with code 2. What it does: scripts/gpu_check.py.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
python="${PYTHON:-$root/.venv/bin/python}"
if [ ! -x "$python" ] && ! command -v "$python" >/dev/null; then
  echo "error: $python: no such Python; bash scripts/setup.sh train, or name one as PYTHON=" >&2
  exit 2
fi
exec "$python" -m scripts.gpu_check "$@"
