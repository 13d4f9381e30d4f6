"""A tiny language model that speaks in words, written as GGUF: it knows which word follows which in a text.

Attention and feed-forward layers are zero, so that what follows depends on the last token alone: every word is one
direction of the embedding, and its column of the output matrix has the logarithms of how often each word follows it.
Served by llama.cpp it is a model like others, and its answers can be read. What is asked does not change them.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np

from support.servers.tiny_model import CONTROL, byte_spellings, write_gguf

HIDDEN = 32
#: The chance that an answer ends after a paragraph's last word, and the score of what never follows.
END_CHANCE, NEVER = 0.3, -40.0


def write_word_model(path: Path, name: str, text: str) -> None:
    """Write the model of a text, whose paragraphs are separated by empty lines."""
    paragraphs = [_words(paragraph) for paragraph in text.strip().split("\n\n")]
    words = sorted({word for paragraph in paragraphs for word in paragraph})
    spelled = byte_spellings()
    vocabulary = [*spelled, *("".join(spelled[byte] for byte in word.encode()) for word in words), *CONTROL]
    # One direction for each word, and one for whatever else came last.
    width = -(-(len(words) + 1) // 32) * 32
    tensors = _tensors(paragraphs, words, vocabulary, width)
    write_gguf(path, name, (width, HIDDEN, 1), vocabulary, ["t h"], tensors)


def _words(paragraph: str) -> list[str]:
    """Words with what follows them: a blank, or the end of the paragraph."""
    *words, last = paragraph.split()
    return [*(f"{word} " for word in words), f"{last}\n\n"]


def _tensors(
    paragraphs: list[list[str]], words: list[str], vocabulary: list[str], width: int
) -> dict[str, np.ndarray]:
    embedding = np.zeros((len(vocabulary), width), np.float32)
    embedding[:, len(words)] = 1.0
    for number in range(len(words)):
        embedding[256 + number] = np.eye(1, width, number, dtype=np.float32)
    # The norm makes a direction as long as the root of the width.
    output = _scores(paragraphs, words, vocabulary, width) / math.sqrt(width)
    level, block = np.ones(width, np.float32), "blk.0."
    tensors = {"token_embd.weight": embedding, "output_norm.weight": level, "output.weight": output}
    tensors |= {f"{block}{norm}.weight": level for norm in ("attn_norm", "ffn_norm")}
    for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
        tensors[f"{block}{part}.weight"] = np.zeros((width, width), np.float32)
    tensors[f"{block}ffn_gate.weight"] = np.zeros((HIDDEN, width), np.float32)
    tensors[f"{block}ffn_up.weight"] = np.zeros((HIDDEN, width), np.float32)
    tensors[f"{block}ffn_down.weight"] = np.zeros((width, HIDDEN), np.float32)
    return tensors


def _scores(paragraphs: list[list[str]], words: list[str], vocabulary: list[str], width: int) -> np.ndarray:
    """The logarithm of the chance of each token (row) after each word (column)."""
    places = {word: number for number, word in enumerate(words)}
    start = len(words)
    follows: dict[int, Counter[int]] = defaultdict(Counter)
    for paragraph in paragraphs:
        numbers = [places[word] for word in paragraph]
        follows[start][256 + numbers[0]] += 1
        for before, after in pairwise(numbers):
            follows[before][256 + after] += 1
    first, end = follows[start], vocabulary.index(CONTROL[2])
    for paragraph in paragraphs:
        total = sum(first.values())
        follows[places[paragraph[-1]]] = first + Counter({end: max(round(END_CHANCE * total), 1)})
    scores = np.full((len(vocabulary), width), NEVER, np.float32)
    for before, counts in follows.items():
        total = sum(counts.values())
        for token, count in counts.items():
            scores[token, before] = math.log(count / total)
    return scores
