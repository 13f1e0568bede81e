# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Completes the file tree of the image. It runs inside the tree, as root, without network."""

from __future__ import annotations

import compileall
import json
import os
import random
import sys
from pathlib import Path

TORCH = Path("/usr/lib/python3/dist-packages/torch/distributed")
TARGET = Path("/opt/seatrial")

#: Debian's torch is built without libuv, yet its rendezvous asks for it. File, what it has, how often, what it gets.
PATCHES = [
    ("rendezvous.py", '"USE_LIBUV", "1"', 1, '"USE_LIBUV", "0"'),
    ("rendezvous.py", "is_master=False,\n", 1, "is_master=False,\n            use_libuv=False,\n"),
    ("elastic/utils/distributed.py", '"USE_LIBUV", "1"', 1, '"USE_LIBUV", "0"'),
    ("elastic/rendezvous/static_tcp_rendezvous.py", "multi_tenant=True,\n", 1, "multi_tenant=True, use_libuv=False,\n"),
]

#: Rows of the dataset; characters of a text, and how many of them are given.
ROWS, SHORTEST, LONGEST, GIVEN = 200, 80, 600, 60


def patched(text: str, old: str, times: int, new: str, where: str) -> str:
    """Return ``text`` with ``old``, which must occur ``times`` times, replaced. Raises ValueError."""
    if text.count(old) != times:
        raise ValueError(
            f"{where} has {old!r} {text.count(old)} times, not {times}: the patches of setup.py do not fit this torch"
        )
    return text.replace(old, new)


def patch(root: Path) -> None:
    """Patch torch. Raises ValueError, before any file is written, for a patch that does not fit."""
    texts: dict[Path, str] = {}
    for name, old, times, new in PATCHES:
        path = root / name
        texts[path] = patched(texts.get(path) or path.read_text(encoding="utf-8"), old, times, new, str(path))
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")


def texts_of(folder: Path) -> list[str]:
    """Return the paragraphs of Python's own library."""
    found: list[str] = []
    for path in sorted(folder.glob("*.py")):
        parts = path.read_text(encoding="utf-8", errors="ignore").split("\n\n")
        found += [one.strip() for one in parts if SHORTEST < len(one.strip()) < LONGEST]
    return found


def make_model(texts: list[str], target: Path) -> None:
    """Make a Llama of two layers and 0.8 million parameters, untrained, and its tokenizer."""
    import torch
    from tokenizers import ByteLevelBPETokenizer
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(0)
    special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(texts, vocab_size=2048, min_frequency=2, special_tokens=list(special.values()))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, model_max_length=1024, **special)
    tokenizer.save_pretrained(target)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=3,
    )
    LlamaForCausalLM(config).save_pretrained(target)


def make_dataset(texts: list[str], target: Path) -> None:
    """Write rows with the columns of an instruction dataset: ``text`` has both ``input`` and ``output``."""
    with open(target, "w", encoding="utf-8") as stream:
        for one in random.Random(0).sample(texts, ROWS):
            given, rest = one[:GIVEN], one[GIVEN:]
            text = f"### Input:\n{given}\n\n### Response:\n{rest}"
            stream.write(json.dumps({"text": text, "input": given, "output": rest}) + "\n")


def main() -> None:
    """Patch, compile, make model and dataset; everybody may read them."""
    patch(TORCH)
    texts = texts_of(Path(os.__file__).parent)
    make_model(texts, TARGET / "tiny-llama")
    make_dataset(texts, TARGET / "tiny-text.jsonl")
    # Pods can't write to the image: without these files, each would compile every module itself.
    for folder in (TORCH.parent, *(Path(one) for one in sys.path if one.startswith("/usr/local/lib/"))):
        compileall.compile_dir(folder, quiet=2)
    for path in (TARGET, *TARGET.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


if __name__ == "__main__":
    main()
