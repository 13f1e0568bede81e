# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Other load generators for inference servers, each in an environment of its own, and what they report of each request.

They are tools of benchmarks only. Nothing is downloaded from a hub of models: their tokenizer is made here.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ROOT / ".cache" / "environments"
VERSIONS = {"guidellm": "0.8.1", "aiperf": "0.13.0"}
#: Seconds for installing a peer, and for its measurement.
INSTALL_LIMIT, RUN_LIMIT = 1800, 900
_OURS = """
import json, sys
from pathlib import Path
import model_servers
point, url, load = sys.argv[1:]
model_servers.send(Path(point), [url], **json.loads(load))
"""
_TOKENIZER = """
import json, sys
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
words, folder = json.loads(sys.argv[1]), sys.argv[2]
vocabulary = {word: number for number, word in enumerate(["<unk>", "<s>", "</s>", *words])}
made = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
special = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=100000, **special).save_pretrained(folder)
"""


@dataclass(frozen=True)
class PeerLoad:
    """The load that each generator sends: ``prompts`` at ``rate`` requests per second with Poisson arrivals."""

    url: str
    rate: float
    prompts: list[str]
    tokens: int
    words: list[str]


@dataclass
class PeerResult:
    """What a generator reported. Times are nanoseconds on the wall clock, by request.

    ids: of the requests, empty if the generator sends none. gaps: between tokens; a single mean if it has no others.
    """

    version: str
    began: float
    processor: float
    ids: list[str] = field(default_factory=list)
    sent: list[float] = field(default_factory=list)
    first_tokens: list[float] = field(default_factory=list)
    gaps: list[list[float]] = field(default_factory=list)


def program(name: str) -> Path:
    """Return the program of a peer, which is installed if it is not there."""
    folder = ENVIRONMENTS / f"peer-{name}-{VERSIONS[name]}"
    done = folder / "complete"
    if not done.exists():
        python = str(folder / "bin" / "python")
        for command in (
            [sys.executable, "-m", "venv", "--clear", str(folder)],
            [python, "-m", "pip", "install", "-q", f"{name}=={VERSIONS[name]}"],
        ):
            subprocess.run(command, check=True, timeout=INSTALL_LIMIT, stdin=subprocess.DEVNULL)
        done.touch()
    return folder / "bin" / name


def run_generator(command: list[str], folder: Path, limit: float = RUN_LIMIT, **environment: str) -> float:
    """Run a generator, end all its processes, and return their processor seconds.

    Raises RuntimeError if it fails, and TimeoutExpired after ``limit`` seconds.
    """
    log = folder / "output.txt"
    with open(log, "wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        before = os.times()
        try:
            code = process.wait(limit)
        finally:
            with contextlib.suppress(ProcessLookupError):  # which has ended with all of its processes
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    after = os.times()
    if code:
        raise RuntimeError(
            f"{command[0]} ended with {code}:\n{log.read_text(encoding='utf-8', errors='replace')[-3000:]}"
        )
    return after.children_user + after.children_system - before.children_user - before.children_system


def _tokenizer(peer: Path, load: PeerLoad, folder: Path) -> Path:
    target = folder / "tokenizer"
    command = [str(peer.parent / "python"), "-c", _TOKENIZER, json.dumps(load.words), str(target)]
    subprocess.run(command, check=True, timeout=RUN_LIMIT, stdin=subprocess.DEVNULL, capture_output=True)
    return target


def _write_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def run_seatrial(load: PeerLoad, folder: Path, clock: Any) -> PeerResult:
    """Send the load with the engine of module inference_load, in a process of its own."""
    point = folder / "001"
    options = {
        "count": len(load.prompts),
        "arrival": {"type": "poisson", "rate": load.rate},
        "output_tokens": load.tokens,
        "prompts": load.prompts,
    }
    began = clock()
    command = [sys.executable, "-c", _OURS, str(point), load.url, json.dumps(options)]
    processor = run_generator(command, folder, PYTHONPATH=os.pathsep.join(sys.path), SEATRIAL_VALIDATE="")
    result = PeerResult("this version", began, processor)
    for line in (point / "requests.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["type"] == "request" and row["outcome"] == "succeeded":
            times = [0, *row["times"]]
            result.ids.append(row["name"])
            result.sent.append(row["sent"] * 1e9)
            result.first_tokens.append(row["first_token"] * 1e9)
            result.gaps.append([(later - earlier) * 1e3 for earlier, later in zip(times, times[1:], strict=False)])
    return result


def run_aiperf(load: PeerLoad, folder: Path, clock: Any) -> PeerResult:
    """Send the load with aiperf."""
    peer = program("aiperf")
    prompts = _write_lines(folder / "prompts.jsonl", [{"text": prompt} for prompt in load.prompts])
    tokenizer = _tokenizer(peer, load, folder)
    options = {
        "--model": "simulated-model",
        "--url": load.url,
        "--endpoint-type": "chat",
        "--tokenizer": tokenizer,
        "--input-file": prompts,
        "--custom-dataset-type": "single_turn",
        "--request-rate": load.rate,
        "--arrival-pattern": "poisson",
        "--request-count": len(load.prompts),
        "--random-seed": 1,
        "--ui": "none",
        "--export-level": "records",
        "--artifact-dir": folder / "results",
    }
    flags = ["--streaming", "--use-server-token-count"]
    flags += ["--extra-inputs", "ignore_eos:true", "--extra-inputs", f"max_completion_tokens:{load.tokens}"]
    began = clock()
    command = [str(peer), "profile", *flags, *(str(part) for option in options.items() for part in option)]
    processor = run_generator(command, folder)
    result = PeerResult(VERSIONS["aiperf"], began, processor)
    for line in (folder / "results" / "profile_export.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        about, metrics = row["metadata"], row["metrics"]
        if row.get("error") is None:
            result.ids.append(about["x_request_id"])
            result.sent.append(about["request_start_ns"])
            result.first_tokens.append(about["request_start_ns"] + metrics["time_to_first_token"]["value"] * 1e6)
            result.gaps.append([gap * 1e6 for gap in metrics["inter_chunk_latency"]["value"]])
    return result


def run_guidellm(load: PeerLoad, folder: Path, clock: Any) -> PeerResult:
    """Send the load with guidellm, which sends no ids of requests and keeps only the mean gap of each."""
    peer = program("guidellm")
    rows = [{"prompt": prompt, "output_tokens_count": load.tokens} for prompt in load.prompts]
    prompts = _write_lines(folder / "prompts.jsonl", rows)
    tokenizer = _tokenizer(peer, load, folder)
    options = {
        "--backend": f"kind=openai_http,target={load.url},model=simulated-model",
        "--profile": f"kind=poisson,rate={load.rate:g}",
        "--constraint": f"kind=max_requests,count={len(load.prompts)}",
        "--tokenizer": f"kind=huggingface_auto,model={tokenizer}",
        "--data": f"kind=json_file,path={prompts}",
        # Otherwise it prepares thousands of prompts before the first request.
        "--data-loader": f"kind=pytorch,samples={len(load.prompts)},prefetch_factor=8",
        "--seed": "kind=static,value=1",
        "--output": f"kind=json,path={folder / 'report.json'}",
    }
    began = clock()
    command = [str(peer), "run", "--disable-progress", *(part for option in options.items() for part in option)]
    processor = run_generator(command, folder, HF_HUB_OFFLINE="1")
    result = PeerResult(VERSIONS["guidellm"], began, processor)
    (benchmark,) = json.loads((folder / "report.json").read_text(encoding="utf-8"))["benchmarks"]
    for row in benchmark["requests"]["successful"]:
        times = row["info"]["timings"]
        first, last, count = times["first_token_iteration"], times["last_token_iteration"], times["token_iterations"]
        result.sent.append(times["request_start"] * 1e9)
        result.first_tokens.append(first * 1e9)
        result.gaps.append([(last - first) / (count - 1) * 1e9])
    return result


GENERATORS = {"seatrial": run_seatrial, "aiperf": run_aiperf, "guidellm": run_guidellm}
