"""Ask every trained cell the same held-out requests: one frozen plan in ``FOLDER/eval``.

Each run is one system of the plan, under its own name; so is each seed's warm start, to see what
GRPO added. Small models answer in this process; for a server the commands are printed.
"""

from collections.abc import Sequence
from pathlib import Path

from configs.ablate import Ablation, HeldOut
from configs.data import BasisData, BasisFiles
from configs.evaluation import EvalConfig
from configs.load import load
from configs.training import Training
from eval.__main__ import main as eval_command
from eval.plan import Plan, write_plan
from eval.responses import read_index
from eval.runner import log_path
from train.ablate.cells import Run, shown
from train.data import training_examples

SERVER = "http://127.0.0.1:8000"


def eval_folder(folder: Path) -> Path:
    """Where the plan of an ablation is."""
    return folder / "eval"


def freeze(ablation: Ablation, training: Training) -> Plan:
    """The plan of all cells, written once.

    Raises ``UserError`` when training uses any of it, or the folder holds another plan.
    """
    asked = load(Path(ablation.held_out.config), EvalConfig, ablation.held_out.overrides)
    folder = eval_folder(ablation.folder)
    data = asked.data
    if not (folder / "plan.json").exists() and data is not None:
        section = (
            BasisFiles(task="basis", files=data.files) if isinstance(data, BasisData) else data
        )
        training_examples(training.model_copy(update={"held_out": (*training.held_out, section)}))
    return write_plan(asked, folder)[0]


def ask_all(plan: Plan, todo: Sequence[Run]) -> int:
    """Ask, in this process, every run what it still owes, and score. 0 when all have answered."""
    for run in todo:
        if answered(plan, run):
            continue
        words = ["run", str(plan.folder), "--system", run.name]
        code = eval_command([*words, "--checkpoint", str(run.checkpoint)])
        if code:
            return code
    return eval_command(["score", str(plan.folder)])


def answered(plan: Plan, run: Run) -> bool:
    path = log_path(plan, run.name)
    planned = len(plan.ids) * plan.config.runs
    return path.exists() and len(read_index(path, plan.holds).final) == planned


def plan_command(held_out: HeldOut, folder: Path) -> str:
    words = ["python", "-m", "eval", "plan", held_out.config, *held_out.overrides]
    return shown([*words, "--out", str(eval_folder(folder))])


def ask_commands(held_out: HeldOut, folder: Path, run: Run) -> list[str]:
    """What asks one run by hand: in one process, or with a server before and after."""
    plan, checkpoint = str(eval_folder(folder)), str(run.checkpoint)
    ask = ["python", "-m", "eval", "run", plan, "--system", run.name]
    if held_out.engine == "in_process":
        return [shown([*ask, "--checkpoint", checkpoint])]
    pid_file = str(folder / "logs" / f"{run.name}.pid")
    serve = ["bash", "scripts/serve_vllm.sh", checkpoint, "--name", run.name]
    server = ["--server", SERVER, "--model", run.name, "--checkpoint", checkpoint]
    return [
        shown([*serve, "--background", "--pid-file", pid_file]),
        shown([*ask, *server]),
        shown(["bash", "scripts/stop_vllm.sh", pid_file]),
    ]
