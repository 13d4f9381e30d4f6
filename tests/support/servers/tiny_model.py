"""A tiny model of random weights, written as GGUF: about half a megabyte, the same bytes for one seed.

What it says is nonsense. Under a JSON schema it is *valid* nonsense, for two reasons: its tokens
are bytes, so that a grammar can choose among them, and one dimension of the embedding is the
same for every token, so that its row of the output matrix is a bias: quotes and the end of the
turn are likely, blanks are not, and a string comes to its end.
"""

from __future__ import annotations

import sys
from pathlib import Path

import gguf
import numpy as np

WIDTH, HIDDEN, LAYERS, HEADS, CONTEXT = 64, 128, 2, 4, 32_768
CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content or '' }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_tiny_model(path: Path, seed: int = 0) -> None:
    vocabulary, merges = _vocabulary()
    tensors = _tensors(vocabulary, len(merges), np.random.default_rng(seed))
    write_gguf(path, "tiny", (WIDTH, HIDDEN, LAYERS), vocabulary, merges, tensors)


def write_gguf(
    path: Path,
    name: str,
    sizes: tuple[int, int, int],
    vocabulary: list[str],
    merges: list[str],
    tensors: dict[str, np.ndarray],
) -> None:
    """Write a model of this width, hidden width and number of layers. Its last tokens are the control tokens."""
    writer = gguf.GGUFWriter(str(path), "llama")
    width, hidden, layers = sizes
    writer.add_name(name)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width // HEADS)
    writer.add_vocab_size(len(vocabulary))
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    kinds = [gguf.TokenType.CONTROL if token in CONTROL else gguf.TokenType.NORMAL for token in vocabulary]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(vocabulary)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(vocabulary.index(CONTROL[0]))
    writer.add_eos_token_id(vocabulary.index(CONTROL[2]))
    writer.add_add_bos_token(False)
    writer.add_add_eos_token(False)
    writer.add_chat_template(TEMPLATE)
    for tensor, weights in tensors.items():
        writer.add_tensor(tensor, weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def byte_spellings() -> list[str]:
    """The letter by which byte-level BPE spells each byte."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spelled, spare = [], 0x100
    for byte in range(0x100):
        spelled.append(chr(byte if byte in visible else spare))
        spare += byte not in visible
    return spelled


def _vocabulary() -> tuple[list[str], list[str]]:
    """A token for each byte, three merged ones, and the control tokens."""
    spelled = byte_spellings()
    blank = spelled[0x20]
    merges = ["t h", "th e", f"{blank} the"]
    return [*spelled, *(merge.replace(" ", "") for merge in merges), *CONTROL], merges


def _tensors(vocabulary: list[str], merged: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    def drawn(rows: int, columns: int, spread: float = 0.2) -> np.ndarray:
        return (spread * rng.standard_normal((rows, columns))).astype(np.float32)

    embedding = drawn(len(vocabulary), WIDTH, 1.0)
    embedding[:, 0] = 6.0
    output = drawn(len(vocabulary), WIDTH, 0.3)
    output[:, 0] = _biases(vocabulary, merged)
    level = np.ones(WIDTH, np.float32)
    tensors = {"token_embd.weight": embedding, "output_norm.weight": level, "output.weight": output}
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        tensors |= {f"{block}{norm}.weight": level for norm in ("attn_norm", "ffn_norm")}
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            tensors[f"{block}{part}.weight"] = drawn(WIDTH, WIDTH)
        tensors[f"{block}ffn_gate.weight"] = drawn(HIDDEN, WIDTH)
        tensors[f"{block}ffn_up.weight"] = drawn(HIDDEN, WIDTH)
        tensors[f"{block}ffn_down.weight"] = drawn(WIDTH, HIDDEN)
    return tensors


def _biases(vocabulary: list[str], merged: int) -> np.ndarray:
    bias = np.full(len(vocabulary), -3.0, np.float32)
    bias[0x20:0x7F] = 0.0
    bias[0x100 : 0x100 + merged] = 0.0
    bias[ord('"')] = 0.9
    bias[ord(" ")] = -1.0
    bias[vocabulary.index("<|im_end|>")] = 0.5
    bias[[vocabulary.index("<|im_start|>"), vocabulary.index("<|endoftext|>")]] = -6.0
    return bias


if __name__ == "__main__":
    write_tiny_model(Path(sys.argv[1]))
