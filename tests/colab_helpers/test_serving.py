"""How fast a chip answers: sizes as in real models, ranges that make sense, kinds that are refused."""

import dataclasses
import json

import pytest

from colab_helpers import chip_throughput, hardware
from colab_helpers.formulas import serving

LLAMA = {
    "num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 160, "vocab_size": 500, "max_position_embeddings": 128,
}  # fmt: skip
GPT2 = {"n_layer": 3, "n_embd": 48, "n_head": 4, "vocab_size": 500, "n_positions": 64}


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("llama", LLAMA),
        ("gemma", {**LLAMA, "model_type": "gemma", "head_dim": 32}),
        ("qwen3", {**LLAMA, "head_dim": 32, "tie_word_embeddings": True}),
        ("gpt2", GPT2),
    ],
)
@pytest.mark.filterwarnings("ignore")  # transformers imports what warns
def test_weights_and_cache_are_those_of_the_library(kind, config):
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    net = transformers.AutoModelForCausalLM.from_config(
        transformers.AutoConfig.for_model(
            kind, **{k: v for k, v in config.items() if k != "model_type"}
        )
    )
    sizes = serving.read_config(config)
    matrices = sum(
        p.numel() for name, p in net.named_parameters() if p.dim() == 2 and "wpe" not in name
    )
    assert sizes.parameters == matrices
    kept = net(torch.zeros(1, 5, dtype=torch.long), use_cache=True).past_key_values
    found = sum(layer.keys.numel() + layer.values.numel() for layer in kept.layers)
    assert 2 * found == sizes.kv_cache_bytes(5)  # 2 bytes each


def test_a_file_a_mapping_a_name_and_a_model_that_sees_are_read(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"text_config": LLAMA, "vision_config": {}}), "utf-8")
    assert serving.read_config(path) == serving.read_config(str(path)) == serving.read_config(LLAMA)


@pytest.mark.parametrize(
    ("change", "given", "words"),
    [
        ({"num_local_experts": 8}, {}, "mixture of experts"), ({"kv_lora_rank": 512}, {}, "compressed"),
        ({"sliding_window": 4096}, {}, "fewer tokens"), ({"model_type": "falcon"}, {}, "falcon"),
        ({"layer_types": ["full_attention", "linear_attention"]}, {}, "linear_attention"),
        ({"vocab_size": None}, {}, "vocab_size"), ({"hidden_size": 2}, {}, "head_dim"),
        ({"num_key_value_heads": -1}, {}, "num_key_value_heads"),
        ({"num_hidden_layers": "many"}, {}, "whole number"),
        ({}, {"users": 0}, "users is 0"), ({}, {"context": 1.5}, "context is 1.5"),
        ({}, {"bits": 5}, "bits is 5"), ({}, {"context": 129}, "takes 128"),
    ],
)  # fmt: skip
def test_what_the_formulas_do_not_describe_is_refused(change, given, words):
    with pytest.raises(ValueError, match=words):
        serving.serve({**LLAMA, **change}, "T4", **{"context": 64, **given})


def test_a_broken_file_is_named(tmp_path):
    path = tmp_path / "config.json"
    for text in ("{", "[]"):
        path.write_text(text, "utf-8")
        with pytest.raises(ValueError, match=r"config\.json"):
            serving.read_config(path)
    with pytest.raises(ValueError, match="neither a file"):
        serving.read_config("nowhere.json")
    with pytest.raises(ValueError, match="neither a file"):
        serving.read_config("```json\n" + json.dumps(dict.fromkeys(map(str, range(200)))))


@pytest.mark.parametrize("chip", ["T4", "A100-40", "v5e"])
def test_more_work_takes_longer_and_less_room_holds_fewer(chip):
    usual = serving.serve("qwen3-4b", chip, context=2048, users=4)
    low, high = usual.step_seconds
    assert 0 < low <= high
    for more in ({"users": 8}, {"context": 4096}):
        slower = serving.serve("qwen3-4b", chip, **{"context": 2048, "users": 4, **more})
        assert slower.step_seconds[0] >= low and slower.step_seconds[1] > high
    fewer = serving.serve("qwen3-4b", chip, context=2048, users=4, bits=4)
    assert fewer.step_seconds < usual.step_seconds and fewer.max_users > usual.max_users
    eager = serving.serve("qwen3-4b", chip, context=2048, users=4, eager=True)
    assert (eager.step_seconds > usual.step_seconds) == (
        chip != "v5e"
    )  # a TPU's program is compiled


def test_as_many_as_fit_do_fit_and_one_more_does_not():
    most = serving.serve("qwen3-8b", "L4", context=4096, bits=4).max_users
    full, over = (serving.serve("qwen3-8b", "L4", 4096, users, 4) for users in (most, most + 1))
    assert full.fits and not over.fits
    taken = full.weight_bytes + full.kv_cache_bytes
    assert 0.8 < taken / hardware.catalog()["L4"].usable_memory <= 0.9
    few = serving.max_users_at(12, serving.model("qwen3-8b"), "L4", 4096, 4)
    each = [1 / serving.serve("qwen3-8b", "L4", 4096, n, 4).step_seconds[1] for n in (few, few + 1)]
    assert each[0] >= 12 > each[1] and few < most


def test_prices_follow_the_speed():
    found = serving.serve("qwen3-4b", "T4", context=4096, users=4)
    cheap, dear = found.dollars_per_million
    again = dataclasses.replace(found, step_seconds=tuple(2 * s for s in found.step_seconds))
    assert again.dollars_per_million == pytest.approx((2 * cheap, 2 * dear))
    assert serving.serve("qwen3-4b", "H100", context=64).dollars_per_million is None


def test_published_speeds_were_not_used_and_most_are_in_range():
    used = {
        row.partition(":")[0] for rate in chip_throughput._data()["rate"] for row in rate["rows"]
    }
    assert not used & {one.row.id for one in serving.checks()}
    off = [abs(one.error_ratio - 1) for one in serving.checks()]
    assert len(off) >= 8 and sum(value < 0.1 for value in off) >= 0.7 * len(off)


def test_keys_that_a_family_leaves_out_are_read_as_the_library_reads_them():
    tied = serving.read_config({"tie_word_embeddings": True, "text_config": LLAMA})
    assert tied.tied and not serving.read_config(LLAMA).tied
    assert serving.read_config({**LLAMA, "model_type": "smollm3"}).tied
    qwen = {**LLAMA, "model_type": "qwen2", "sliding_window": 4096}
    assert serving.read_config(qwen).kv_heads == 2
    for key, kind in (("intermediate_size", "llama"), ("num_key_value_heads", "mistral")):
        lacking = {name: value for name, value in LLAMA.items() if name != key}
        with pytest.raises(ValueError, match=key):
            serving.read_config({**lacking, "model_type": kind})


def test_a_chip_without_16_bits_is_served_in_32():
    assert serving.serve(LLAMA, "K80", 64).tokens_per_second[0] > 0
