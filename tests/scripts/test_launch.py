"""Several GPUs and nodes: accelerate reads each file, and the scripts say what they would start.

python -m pytest tests/scripts/test_launch.py -v
"""

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from accelerate.commands.config.config_args import ClusterConfig, load_config_from_file
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils import DistributedType

ROOT = Path(__file__).resolve().parents[2]
ENGINES = sorted((ROOT / "configs" / "accelerate").glob("*.yaml"))
TINY = "configs/train/tiny_cpu.yaml"


def script(name: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SLURM")} | variables
    return subprocess.run(
        ["bash", f"scripts/{name}", *words],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
    )


def loaded(name: str) -> ClusterConfig:
    config = load_config_from_file(str(ROOT / "configs" / "accelerate" / name))
    assert isinstance(config, ClusterConfig)
    return config


def test_the_five_engines_are_there() -> None:
    names = [path.stem for path in ENGINES]
    assert names == ["ddp_8gpu", "fsdp2_8gpu", "one_gpu", "zero2_8gpu", "zero3_8gpu"]


@pytest.mark.parametrize("path", ENGINES, ids=lambda path: path.stem)
def test_accelerate_reads_each_and_its_command_line_stands_in_it(path: Path) -> None:
    config = loaded(path.name)
    assert config.num_processes == (1 if path.stem == "one_gpu" else 8)
    assert config.mixed_precision == "no"
    head = [line for line in path.read_text(encoding="utf-8").splitlines() if line[:1] == "#"]
    line = next(line for line in head if "accelerate launch" in line).lstrip("# ")
    words = shlex.split(line.partition("  #")[0])
    arguments = launch_command_parser().parse_args(words[2:])
    assert arguments.module and arguments.training_script == "train"
    assert (ROOT / arguments.config_file) == path


def test_each_engine_is_what_its_name_says() -> None:
    assert loaded("ddp_8gpu.yaml").distributed_type == DistributedType.MULTI_GPU
    fsdp = loaded("fsdp2_8gpu.yaml")
    assert fsdp.distributed_type == DistributedType.FSDP
    assert fsdp.fsdp_config["fsdp_version"] == 2
    stages = [loaded(f"zero{n}_8gpu.yaml").deepspeed_config["zero_stage"] for n in (2, 3)]
    assert stages == [2, 3]


@pytest.mark.parametrize("name", ["ddp_8gpu", "fsdp2_8gpu"])
def test_the_launcher_accepts_the_file_and_its_keys(name: str) -> None:
    path = ROOT / "configs" / "accelerate" / f"{name}.yaml"
    words = ["--config_file", str(path), "-m", "train", TINY, "--resume"]
    arguments, defaults, _ = _validate_launch_command(launch_command_parser().parse_args(words))
    assert arguments.num_processes == 8
    assert arguments.training_script_args == [TINY, "--resume"]
    assert arguments.use_fsdp == (name == "fsdp2_8gpu")
    assert str(arguments.fsdp_version) == ("2" if name == "fsdp2_8gpu" else "1")
    assert defaults.num_processes == 8


@pytest.mark.parametrize("name", ["launch_torchrun.sh", "launch_slurm.sh", "gpu_check.sh"])
def test_the_shell_reads_the_script(name: str) -> None:
    words = ["bash", "-n", str(ROOT / "scripts" / name)]
    assert subprocess.run(words, timeout=30).returncode == 0


def test_torchrun_on_two_nodes() -> None:
    words = ["--nodes", "2", "--rank", "1", "--head", "n0", "--dry-run", TINY, "model={tiny: {}}"]
    done = script("launch_torchrun.sh", *words)
    assert done.returncode == 0
    assert shlex.split(done.stdout) == [
        "torchrun", "--nnodes", "2", "--node_rank", "1", "--nproc_per_node", "8",
        "--rdzv_backend", "c10d", "--rdzv_id", "beliefrl", "--rdzv_endpoint", "n0:29500",
        "-m", "train", TINY, "model={tiny: {}}",
    ]  # fmt: skip


def test_slurm_on_two_nodes() -> None:
    done = script("launch_slurm.sh", "--dry-run", TINY, "--resume", MASTER_ADDR="n0")
    assert done.returncode == 0
    inner = done.stdout.partition("bash -c '")[2].rstrip("'\n")
    assert shlex.split(inner) == [
        "accelerate", "launch", "--config_file", "configs/accelerate/ddp_8gpu.yaml",
        "--num_machines", "2", "--num_processes", "16", "--main_process_ip", "n0",
        "--main_process_port", "29500", "--rdzv_backend", "static",
        "--machine_rank", "$SLURM_NODEID", "-m", "train", TINY, "--resume",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        ("launch_torchrun.sh", [], "name a CONFIG"),
        ("launch_torchrun.sh", ["--head", "n0", TINY], "--rank is missing"),
        ("launch_torchrun.sh", ["--rank", "0", TINY], "--head is missing"),
        ("launch_torchrun.sh", ["--rank"], "--rank needs a value"),
        ("launch_torchrun.sh", ["--rank", "0", "--head", "n0", "x.yaml"], "x.yaml: no such config"),
        ("launch_slurm.sh", [], "name a CONFIG"),
        ("launch_slurm.sh", [TINY], "not within a Slurm job"),
        ("launch_slurm.sh", ["--dry-run", "x.yaml"], "x.yaml: no such config"),
    ],
)
def test_what_is_missing_is_one_line(name: str, words: list[str], message: str) -> None:
    done = script(name, *words)
    assert done.returncode == 2
    assert message in done.stderr and len(done.stderr.splitlines()) == 1
