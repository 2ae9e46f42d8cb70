#!/usr/bin/env bash
# Set up, then every check and every test: bash scripts/test.sh [PYTEST ARGUMENTS]
# Ends with pytest's closing line; exits non-zero on the first thing that fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export HF_HUB_OFFLINE=1 WANDB_MODE=offline TOKENIZERS_PARALLELISM=false GOMP_SPINCOUNT=10000

step() { echo "[test] $* (after $SECONDS s)"; }

step set-up
bash scripts/setup.sh train dev
# Without vLLM the tests that need it skip, and say why.
bash scripts/setup.sh serve || step "vLLM could not be installed: the tests that serve with it will skip"
if ! command -v chromium >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    step "installing chromium, to look at the report"
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends chromium; } \
        >/dev/null 2>&1 </dev/null || step "no chromium: the tests that need it will skip"
fi
step "ruff check"
.venv/bin/ruff check .
step "ruff format --check"
.venv/bin/ruff format --check .
step mypy
.venv/bin/mypy
step pytest
.venv/bin/python -m pytest -rs --durations=10 "$@"
