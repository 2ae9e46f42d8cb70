#!/usr/bin/env bash
# The whole story on a laptop: train a tiny Qwen3 on belief stories, serve it before and after GRPO, compare the two
# on held-out pairs, write a report.   bash scripts/quickstart.sh
# No hub, no key. A second call goes on where the first one stopped and skips what is done.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

train_config=configs/train/tiny_cpu.yaml
eval_config=configs/eval/tiny_cpu.yaml
run=runs/tiny_cpu               # the folder that train_config names
evaluation=runs/eval/tiny_cpu
work=runs/quickstart            # logs, pid files and what is done
python=.venv/bin/python
# Idle OpenMP threads sleep instead of spinning: spinning beside another busy process costs a factor of five or more.
export TOKENIZERS_PARALLELISM=false GOMP_SPINCOUNT=10000

timings=()
jobs=()                         # process groups that this script started

phase() {                       # phase NAME COMMAND...: run it, remember how long it took
    local name="$1" start=$SECONDS; shift
    echo "[quickstart] $name"
    "$@"
    timings+=("$(printf '%6d s  %s' $((SECONDS - start)) "$name")")
}

attended() {                    # attended COMMAND...: run it and wait, yet answer a signal at once
    set -m
    "$@" </dev/null &
    set +m
    jobs+=("$!")
    wait "$!"
}

in_background() {               # in_background LOG COMMAND...: a process group of its own; its pid is in $job
    local log="$1"; shift
    set -m
    "$@" >"$log" 2>&1 </dev/null &
    job=$!
    set +m
    jobs+=("$job")
}

wait_for() {                    # wait_for PID WHAT LOG
    wait "$1" && return
    tail -n 5 "$3" >&2
    echo "error: $2 failed (all of it: $3); mend that and run this script again" >&2
    exit 1
}

clean_up() {
    trap - EXIT INT TERM
    local job pid_file
    for job in "${jobs[@]}"; do kill -TERM -- "-$job" 2>/dev/null || true; done
    wait || true
    for pid_file in "$work"/*.pid; do
        if [ -e "$pid_file" ]; then bash scripts/stop_vllm.sh "$pid_file" >/dev/null || true; fi
    done
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

train() {
    if [ -d "$run/final" ]; then echo "$run/final is there: nothing to train"; return; fi
    if [ -e "$run/manifest.json" ]; then attended "$python" -m train "$train_config" --resume; return; fi
    attended "$python" -m train "$train_config"
}

# What a system's answers depend on: its weights and the plan.
answered_stamp() { cat "$1"/*.safetensors "$evaluation/plan.json" | sha256sum; }

answer() {                      # answer SYSTEM CHECKPOINT PORT: serve it, ask it everything, stop it
    local system="$1" checkpoint="$2" port="$3" pid_file="$work/$1.pid"
    bash scripts/serve_vllm.sh "$checkpoint" --name "$system" --port "$port" --background \
        --pid-file "$pid_file" --log-file "$work/$system-vllm.log"
    "$python" -m eval run "$evaluation" --system "$system" --server "http://127.0.0.1:$port" --model "$system" \
        --checkpoint "$checkpoint"
    bash scripts/stop_vllm.sh "$pid_file"
    answered_stamp "$checkpoint" >"$work/$system.answered"
}

answer_both() {
    local ports system started=()
    # shellcheck disable=SC2207
    ports=($("$python" -c 'import socket
pair = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(one.getsockname()[1] for one in pair))'))
    local -A checkpoint=([base]="$run/base" [trained]="$run/final") port=([base]="${ports[0]}" [trained]="${ports[1]}")
    for system in base trained; do
        if [ "$(cat "$work/$system.answered" 2>/dev/null)" = "$(answered_stamp "${checkpoint[$system]}")" ]; then
            echo "$system has answered everything"
            continue
        fi
        in_background "$work/$system.log" answer "$system" "${checkpoint[$system]}" "${port[$system]}"
        started+=("$job $system")
        echo "$system: served on port ${port[$system]} (log: $work/$system.log)"
    done
    for system in "${started[@]}"; do
        wait_for "${system% *}" "asking the ${system#* } model" "$work/${system#* }.log"
        tail -n 2 "$work/${system#* }.log" | head -n 1
    done
}

score_and_report() {
    attended "$python" -m eval score "$evaluation"
    attended "$python" -m eval compare "$evaluation" --base base --trained trained
    attended "$python" -m eval report "$evaluation" --train "$run"
}

mkdir -p "$work"
phase "set-up of .venv" attended bash scripts/setup.sh train
in_background "$work/setup-serve.log" bash scripts/setup.sh serve     # beside the training
serve_setup=$job
phase "training" train
phase "waiting for .venv-vllm" wait_for "$serve_setup" "the set-up of vLLM" "$work/setup-serve.log"
phase "planning the evaluation" attended "$python" -m eval plan "$eval_config" --out "$evaluation"
phase "serving and asking both models" answer_both
phase "scores, comparison, report" score_and_report
printf '%s\n' "${timings[@]}"
echo "$(printf '%6d s' "$SECONDS")  in all"
echo "report: $PWD/$evaluation/report.html"
