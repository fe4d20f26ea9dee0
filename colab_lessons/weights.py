"""The trained model as it ships: 8 bits per weight and a scale per row, in one safetensors file.

`python -m colab_lessons.weights FOLDER` packs what `colab_lessons.training` left in a folder.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from colab_helpers import _atomic_files
from colab_lessons import models, shakespeare, training

SHIPPED = Path(__file__).parent / "trained" / "gpt-shakespeare.safetensors"
_SCALE = ".scale"  # behind a matrix's name: one float32 per row


def quantize(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return a state dict with each matrix as int8, of the same shape, and float32 scales of shape (rows,).

    A row's largest element becomes 127 or -127. Vectors stay as they are. `state` is a model's state dict.

    >>> packed = quantize({"w": torch.tensor([[0.5, -1.0], [0.0, 0.0]])})
    >>> packed["w"].tolist(), [round(scale, 4) for scale in packed["w.scale"].tolist()]
    ([[64, -127], [0, 0]], [0.0079, 1.0])
    """
    packed = {}
    for name, weight in state.items():
        if weight.dim() < 2:
            packed[name] = weight.float().contiguous()
            continue
        scale = weight.float().abs().amax(1) / 127  # (rows,)
        scale[scale == 0] = 1
        packed[name] = torch.round(weight / scale[:, None]).to(torch.int8)  # (rows, columns)
        packed[name + _SCALE] = scale
    return packed


def dequantize(packed: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the float32 state dict of what `quantize` made; weights without a scale stay as they are.

    `packed` are tensors by name.

    >>> dequantize({"w": torch.tensor([[2, -4]], dtype=torch.int8), "w.scale": torch.tensor([0.5])})["w"]
    tensor([[ 1., -2.]])
    """
    state = {}
    for name, weight in packed.items():
        scaled = packed.get(name.removesuffix(_SCALE)) if name.endswith(_SCALE) else None
        if scaled is None or scaled.dtype != torch.int8:  # else it's the scale of another one
            scale = packed.get(name + _SCALE)
            state[name] = weight.float() if scale is None else weight * scale[:, None]
    return state


def load(path: Path = SHIPPED) -> dict[str, torch.Tensor]:
    """Return the float32 state dict in `path`: a packed safetensors file, a plain one, or one of torch.save.

    Raises:
        FileNotFoundError: There's no such file.
    """
    if Path(path).suffix == ".safetensors":
        return dequantize(load_file(path))
    return torch.load(path, map_location="cpu", weights_only=True)


def bits_by_play(model: torch.nn.Module) -> dict[str, float]:
    """Return bits per character of `model` on each held-out play, by its title."""
    text = shakespeare.read("test")
    second = text.index("THE TEMPEST")
    plays = {"Macbeth": text[:second], "The Tempest": text[second:]}
    return {
        title: training.bits_per_character(model, shakespeare.encode(play))
        for title, play in plays.items()
    }


def main() -> None:
    """Pack the weights of a training into the file that ships, and keep its record with both losses."""
    parser = argparse.ArgumentParser(prog="python -m colab_lessons.weights", description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder of colab_lessons.training")
    options = parser.parse_args()
    SHIPPED.parent.mkdir(exist_ok=True)
    save_file(quantize(load(options.folder / "weights.pt")), SHIPPED, metadata={"model": "GPT"})
    SHIPPED.chmod(0o644)  # safetensors makes it private
    record = json.loads((options.folder / "record.json").read_text("utf-8"))
    for name, path in (("float32", options.folder / "weights.pt"), ("shipped", SHIPPED)):
        record[f"bits_{name}"] = bits_by_play(models.trained(path))
    slug = "-".join(record["device"].lower().replace(",", "").split())
    kept = Path(__file__).parent / "job_records" / f"{slug}.json"
    record["seconds"] = [round(each, 3) for each in record["seconds"]]
    record["losses"] = [round(each, 4) for each in record["losses"]]
    lines = (f" {json.dumps(name)}: {json.dumps(value)}" for name, value in record.items())
    _atomic_files.write(kept, "{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{SHIPPED}: {SHIPPED.stat().st_size / 1e6:.1f} MB\n{kept}")


if __name__ == "__main__":
    main()
