# %%
# @title Imports { display-mode: "form" }
import copy
import logging
import os
import statistics
import tempfile
from functools import partial
from pathlib import Path

logging.disable(logging.WARNING)  # what libraries say while they load
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

import torch
from torch import nn
from torch.nn import functional as F

from colab_helpers import chip_throughput, hardware, memory, plan

from colab_lessons import data, exercises, figures, measurements, recorded_outputs

# %% tags=["parameters"]
# @title Sizes that you may set: None stands for the lesson's own { display-mode: "form" }
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
MODEL = None  # on a GPU "Qwen/Qwen3-0.6B", and the last part of the lesson uses it
BASE_STEPS = None
STEPS = None
SEEDS = None
LAYERS = None

# %% tags=["sizes"]
# @title The lesson's own sizes, small ones with FAST { display-mode: "form" }
BASE_STEPS = BASE_STEPS or (60 if FAST else 800)  # until the small model adds
STEPS = STEPS or (40 if FAST else 300)  # until it subtracts
SEEDS = SEEDS or (1 if FAST else 3)  # adapters that are trained
LAYERS = LAYERS or (1 if FAST else 0)  # of the models that are rehearsed; 0: all that they have

# %%
recorded_outputs.watch("15_fine_tune")  # cells that need what is missing show recorded results
device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
torch.set_num_threads(1)  # two threads on a busy core would wait for each other
os.chdir(tempfile.mkdtemp(prefix="lesson15-"))  # for the files that we make

# %% [markdown] tags=["minutes-9"]
# ## A small Qwen3 that adds
#
# The first model trains in twenty seconds. It's the same class as the Qwen3 that you'd download, with 83,000 weights instead of 600 million. It
# reads `47+38=` and writes `580`: the result with its last digit first, because that's the order in which one adds. Each character is a token.

# %%
END, PAD = 13, 14  # after the ten digits, and + = -


def rows(sign, end):
    split = data.sums(sign=sign)
    return [F.pad(torch.tensor(part, device=device), (0, end), value=END) for part in (split.train, split.test)]


plus, plus_test = rows("+", end=0)  # 47+38=580
minus, minus_test = rows("-", end=1)  # 47-38=900, and a token for the end

# %%
# @title The sizes of the small one { display-mode: "form" }
# needs: transformers
from transformers import AutoModelForCausalLM, Qwen3Config

config = Qwen3Config(
    vocab_size=16, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=8,
    head_dim=8, max_position_embeddings=64, tie_word_embeddings=True, eos_token_id=END, pad_token_id=PAD, use_cache=False,
)


# %%
half = device.type == "cuda"  # fp16 there, as a T4 needs it


def train(model, ids, labels, steps, lr, batch_size=128, pad=PAD):
    weights = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(weights, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=steps)
    scaler = torch.amp.GradScaler(device.type, enabled=half)
    keep = labels.shape[1] - (labels != -100).any(0).int().argmax().item() + 1  # logits that answers need
    model.train()
    for _ in range(steps):
        some = torch.randint(len(ids), (batch_size,), device=ids.device)
        with torch.autocast(device.type, torch.float16, enabled=half):
            loss = model(ids[some], ids[some] != pad, labels=labels[some][:, -keep:], logits_to_keep=keep).loss
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(weights, 1.0)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        optimizer.zero_grad()
    return model.eval()


# %%
def answers_of(rows):  # only they are learned: -100 leaves the question out of the loss
    return rows.masked_fill(torch.arange(rows.shape[1], device=rows.device) < 6, -100)


# %%
# @title Let it answer, and count what is right { display-mode: "form" }
@torch.no_grad()
def answers(model, rows):
    text = rows[:, :6]
    for _ in range(6, rows.shape[1]):  # one token after the other
        text = torch.cat([text, model(text).logits[:, -1:].argmax(-1)], dim=1)
    return text


def right(model, rows):
    return 100 * (answers(model, rows) == rows).all(1).float().mean().item()


# %%
# needs: transformers
torch.manual_seed(0)
base = train(AutoModelForCausalLM.from_config(config).to(device), plus, answers_of(plus), BASE_STEPS, lr=1e-2)
plus_base, minus_base = right(base, plus_test), right(base, minus_test[:, :9])
print(f"{sum(p.numel() for p in base.parameters()):,} weights. Right: {plus_base:.1f}% of new additions, {minus_base:.1f}% of subtractions")
print(*(data.spell(row.cpu().numpy()) for row in answers(base, minus_test[:5, :9])), sep="   ")

# %% [markdown]
# It has never seen a minus, and answers anyway. The usual way to teach it is to continue training, with all weights, on the new task.
#
# **Predict.** You train it until nearly all subtractions are right. What percentage of *additions* does it then get right?

# %%
plus_left = None  # @param {type:"number"}

# %%
# needs: transformers
whole = train(copy.deepcopy(base), minus, answers_of(minus), STEPS, lr=8e-3)
minus_whole, plus_whole = right(whole, minus_test), right(whole, plus_test)
print(f"after training all weights: {minus_whole:.1f}% of subtractions right, {plus_whole:.1f}% of additions{f' (you said {plus_left:g})' if plus_left is not None else ''}")
print(*(data.spell(row.cpu().numpy()) for row in answers(whole, plus_test[:5])), sep="   ")

# %% [markdown]
# Addition is gone. That's *catastrophic forgetting*: nothing in the new data asked for addition, so the weights that held it were used for
# something else. A smaller learning rate forgets less than ours, which is nearly that of training from scratch, and learns more slowly.
#
# The other way is to leave the old weights alone, add something small beside them, and train only that.

# %% [markdown] tags=["minutes-13", "short-12"]
# ## LoRA: a skill that you can unplug
#
# A frozen weight is only read. It needs no gradient, no optimizer state, and fewer bits. The next cell does four bits by hand, as in lesson 12: 64
# weights share a scale, and two codes share a byte.

# %%
def pack(weight, bits):
    if bits == 16:
        return weight.half(), None
    blocks = weight.reshape(-1, 64)  # (blocks, 64)
    scale = blocks.abs().amax(1, keepdim=True).clamp_min(1e-12) / 7
    codes = ((blocks / scale).round() + 8).to(torch.uint8).reshape(-1, 2)  # 1 … 15
    return codes[:, 0] * 16 + codes[:, 1], scale


def unpack(packed, scale, shape):
    if scale is None:
        return packed
    codes = torch.stack([packed >> 4, packed & 15], dim=1).reshape(-1, 64)
    return ((codes - 8.0) * scale).reshape(shape)


# %% [markdown]
# The backward pass needs the weight again. By default, autograd would keep the unpacked one, and nothing would be saved. So we keep the packed one,
# and unpack it a second time.

# %%
class Frozen(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, *packed):
        ctx.packed = packed
        return x @ unpack(*packed).to(x.dtype).T

    @staticmethod
    def backward(ctx, gradient):
        return gradient @ unpack(*ctx.packed).to(gradient.dtype), None, None, None


# %% [markdown]
# Beside each frozen layer we put two thin matrices: `lora_A` goes down from its width to 8 numbers, and `lora_B` goes up again. That's *LoRA*, a low-rank
# *adapter*. `lora_B` begins at zero, so at first it changes nothing.

# %%
class LoRA(nn.Module):
    def __init__(self, linear, rank, bits):
        super().__init__()
        packed, scale = pack(linear.weight.detach(), bits)
        self.register_buffer("packed", packed)
        self.register_buffer("scale", scale)
        self.shape, self.bias, device = linear.weight.shape, linear.bias, linear.weight.device
        self.lora_A = nn.Linear(linear.in_features, rank, bias=False, device=device)
        self.lora_B = nn.Linear(rank, linear.out_features, bias=False, device=device)
        nn.init.zeros_(self.lora_B.weight)
        self.plugged = 2.0  # alpha / rank in LoRA's terms; 0 unplugs it

    def forward(self, x):
        y = Frozen.apply(x, self.packed, self.scale, self.shape) + self.plugged * self.lora_B(self.lora_A(x))
        return y if self.bias is None else y + self.bias


# %%
def adapt(model, rank=8, bits=4):
    model.requires_grad_(False)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear) and name != "lm_head":  # the output layer stays as it is, as in peft
                setattr(module, name, LoRA(child, rank, bits))
    return model


def plug(model, strength):
    for module in model.modules():
        if isinstance(module, LoRA):
            module.plugged = strength


# %% [markdown]
# These forty lines are the heart of QLoRA. They work on any model whose linear layers have a multiple of 64 weights.
#
# **Predict.** We train such an adapter on subtraction until nearly all are right. Then we unplug it. How good is addition then?

# %%
unplugged = None  # @param ["gone, as before", "about half as good", "as good as at the beginning"]

# %%
# needs: transformers
moments = []  # for each seed: scores (plus, minus) in four bits, with the adapter, without it
for seed in range(SEEDS):
    torch.manual_seed(seed)
    adapted = adapt(copy.deepcopy(base))
    scores = [(right(adapted, plus_test), right(adapted, minus_test[:, :9]))]
    train(adapted, minus, answers_of(minus), STEPS, lr=1e-2)
    for strength, task in ((2.0, minus_test), (0.0, minus_test[:, :9])):
        plug(adapted, strength)
        scores.append((right(adapted, plus_test), right(adapted, task)))
    moments.append(scores)
    print(f"seed {seed}, plugged in: {scores[1][1]:5.1f}% of subtractions, {scores[1][0]:5.1f}% of additions.  Unplugged: {scores[2][0]:5.1f}% of additions")

# %%
# @title Draw all four moments { display-mode: "form" }
# needs: transformers
packed, plugged, taken_out = (tuple(statistics.median(run[k][task] for run in moments) for task in (0, 1)) for k in range(3))
answer = "as good as at the beginning" if taken_out[0] > plus_base - 2 else "gone, as before" if taken_out[0] < 10 else f"at {taken_out[0]:.0f}%"
figures.grouped_bars(
    {
        name: {"additions": round(scores[0]), "subtractions": round(scores[1])}
        for name, scores in {
            "as trained": (plus_base, minus_base), "four bits, adapter plugged in": plugged, "four bits, adapter unplugged": taken_out, "all weights trained": (plus_whole, minus_whole),
        }.items()
    },
    unit="%", title=f"Unplug the adapter, and addition is {answer}{f' (you said {unplugged})' if unplugged else ''}",
)

# %% [markdown]
# Either way, it learns to subtract. And while the adapter is plugged in, addition is gone, too. In the row marked *unplugged* the model adds as
# before, because its frozen weights never changed. Had you trained all weights, going back would take a second copy of the whole model.
#
# The new skill is therefore a file of its own. You can have ten of them for one base, and share only the adapter.

# %% [markdown] tags=["minutes-15", "short-13"]
# ## Will a real one fit?
#
# Count bytes on paper first. A weight that trains takes 4 bytes, its gradient 4, and Adam's two moments 8. A frozen weight takes half a byte, and
# 64 of them share 4 bytes of scale. Then we run a step and look.

# %%
# @title Count on paper, and in a step { display-mode: "form" }
# needs: transformers
def predicted(model):
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    kept = sum(p.numel() for p in model.parameters() if not p.requires_grad)
    frozen = sum(module.shape.numel() for module in model.modules() if isinstance(module, LoRA))
    return {"weights": 4 * (trained + kept) + frozen * (0.5 + 4 / 64), "gradients": 4 * trained, "Adam": 8 * trained}


def measured(model):
    with memory.track(device, known=model) as tracker:
        alive = [tracker.allocated]
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0)
        model(minus[:128]).logits.sum().backward()
        alive.append(tracker.allocated)
        optimizer.step()
        alive.append(tracker.allocated)
    model.zero_grad()
    return {"weights": alive[0], "gradients": alive[1] - alive[0], "Adam": alive[2] - alive[1]}


# %%
# needs: transformers
costs = {}
for name, model in {"all weights": whole, "four bits and an adapter": adapted}.items():
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    thought, found = predicted(model), measured(model)
    costs[name] = sum(found.values())
    print(f"{name}: {trained:,} weights train")
    print(*(f"   {part:>9}: {thought[part]:9,.0f} B predicted, {found[part]:9,} B measured" for part in thought), sep="\n")
share = 100 * trained / sum(p.numel() for p in base.parameters())
print(f"in all {costs['all weights'] / costs['four bits and an adapter']:.1f} times less. The adapter has {share:.0f}% as many weights as the model")

# %% [markdown]
# The extra 32 bytes hold a table for the positions. In so small a model the adapter is large. In a real one it isn't.
#
# You need neither a GPU nor the real weights to see that. Lesson 08 rehearsed steps on PyTorch's meta device, where tensors have a shape and no
# data. `adapt` works there, too, so the next cells rehearse Qwen3 in its real sizes, with *your* lines in it. A step is four sequences of 512
# tokens, with autocast to fp16.

# %%
# @title The sizes of three Qwen3 { display-mode: "form" }
SIZES = {
    "0.6B": {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": LAYERS or 28, "num_attention_heads": 16, "tie_word_embeddings": True},
    "4B": {"hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": LAYERS or 36, "num_attention_heads": 32, "tie_word_embeddings": True},
    "8B": {"hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": LAYERS or 36, "num_attention_heads": 32, "tie_word_embeddings": False},
}

# %%
# needs: transformers
def rehearse(size, bits=32, checkpointing=False, logits=512):
    config = Qwen3Config(**SIZES[size], num_key_value_heads=8, head_dim=128, vocab_size=151_936, use_cache=False)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    if bits < 32:
        adapt(model, bits=bits)
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.enable_input_require_grads()

    def forward(batch_size):
        ids = torch.zeros(batch_size, 512, dtype=torch.long)
        with torch.autocast("cpu", torch.float16):
            return model(ids, labels=ids[:, -logits:], logits_to_keep=logits).loss

    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], fused=True)
    return plan.trace_step(model.train(), forward, 4, optimizer)


# %%
# needs: transformers
ladder = {
    "all weights": rehearse("0.6B"),
    "… checkpointing": rehearse("0.6B", checkpointing=True),
    "adapter, rest in 16 bits": rehearse("0.6B", bits=16, checkpointing=True),
}
print(*(f"{name}: {step.footprint.peak / 1e9:.1f} GB at the peak" for name, step in ladder.items()), sep="\n")

# %% [markdown]
# A T4 in Colab has 15.6 GB. Training all weights doesn't fit at first. With checkpointing, as in lesson 06, it does. An adapter halves that again,
# because it needs hardly any gradients and moments.
#
# **Predict.** How many GB does it save to keep these frozen weights in 4 bits instead of 16?

# %%
four_bits_save = None  # @param {type:"number"}

# %%
# needs: transformers
ladder["… 4 bits"] = rehearse("0.6B", bits=4, checkpointing=True)
ladder["… logits of answers only"] = rehearse("0.6B", bits=4, checkpointing=True, logits=64)
peaks = {name: step.footprint.peak for name, step in ladder.items()}
falls = [(before - after) / 1e9 for before, after in zip(peaks.values(), list(peaks.values())[1:])]  # GB, at each step
saved = falls[-2]
print(*(f"{name}: {fall:.1f} GB less" for name, fall in zip(list(peaks)[1:], falls)), sep="\n")

# %%
# @title Draw the bytes { display-mode: "form" }
# needs: transformers
guess = f" (you said {four_bits_save:g})" if four_bits_save is not None else ""
parts = {
    name: {"weights": step.footprint.parameters, "all else, at the worst moment": step.footprint.peak - step.footprint.parameters} for name, step in ladder.items()
}
figures.stacked_bars(
    parts, unit="B", marks={"T4": 14.56 * 2**30}, title=f"Qwen3 0.6B: four bits save {saved:.1f} GB{guess}, and fewer logits {falls[-1]:.1f} GB",
)

# %% [markdown]
# Four bits are what many try first, and in this model they save the least. The blue parts show why: the weights were never large, and what's left
# of them is mostly the embedding, which stays in 32 bits. Each step is measured on top of those before it. In a different order each would save a
# different amount.
#
# The last step is one that few people take. The model gives each of 2,048 tokens a *logit* for each of 151,936 words. In four bytes that's 1.2 GB,
# held several times. If your data are questions and answers, only the answers need theirs. Here those are the last 64 tokens. In `train` above,
# it's `logits_to_keep`.
#
# **Predict.** With everything that helps, which is the largest Qwen3 that a free T4 can train?

# %%
largest = None  # @param ["none of them", "0.6B", "4B", "8B"]

# %%
# needs: transformers
steps = {"0.6B, 4 bits": ladder["… logits of answers only"]} | {
    f"{size}, {bits} bits": rehearse(size, bits=bits, checkpointing=True, logits=64) for size, bits in (("4B", 4), ("8B", 16), ("8B", 4))
}
verdict = {}
for name, step in steps.items():
    [verdict[name]] = plan.estimates(step, ["T4"])
    one = verdict[name]
    print(f"{name:>12}: up to {one.reserved_bytes / 1e9:4.1f} GB {'fit' if one.fits else 'do NOT fit'}, {one.low:.1f} to {one.high:.1f} s a step, {5 * one.low:.0f} to {5 * one.high:.0f} minutes for 300")

# %%
# @title Which is the largest that fits? { display-mode: "form" }
# needs: transformers
found = max((name.split(",")[0] for name, one in verdict.items() if one.fits), key=lambda size: float(size[:-1]))
trained = steps["8B, 4 bits"].footprint.gradients / 4  # a float32 each
print(f"The largest that fits: {found}{f' (you said {largest})' if largest else ''}. The adapter of 8B has {trained / 1e6:.1f} million weights")

# %% [markdown]
# For 8 billion weights, four bits decide, and the adapter is a quarter of a percent. Our `adapt` would first need them in 16 bits, 16 GB of the
# machine's own memory, where a free Colab machine has 12.7. bitsandbytes packs them while it loads. Of the 9 GB that the weights still take, 5 are
# the embedding and the output layer in 32 bits. The planner has added what CUDA takes for itself. Still, it's a rehearsal of *our* lines, and we
# have no run on a T4. PyTorch has no fast attention for Qwen3's grouped heads on this chip, so steps may take half as long again, and the minutes
# above are a best case. Leave a tenth of the memory free, and a quarter with bitsandbytes' kernels, of which lesson 06 found that they take more
# than a rehearsal shows.

# %% [markdown] tags=["minutes-10"]
# ## The same with the libraries
#
# Having built it, you can use the libraries: *transformers* loads the model, *bitsandbytes* packs it, and *peft* puts the adapter beside it. Our
# small Qwen3 becomes a folder like those you download, with a tokenizer.

# %%
# @title A tokenizer for sixteen tokens, and the folder { display-mode: "form" }
# needs: transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

signs = [*data.SUM_ALPHABET, "<end>", "<pad>", "<unknown>"]
characters = Tokenizer(models.WordLevel({sign: k for k, sign in enumerate(signs)}, unk_token="<unknown>"))
characters.pre_tokenizer, characters.decoder = pre_tokenizers.Split("", "isolated"), decoders.Fuse()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=characters, eos_token="<end>", pad_token="<pad>", unk_token="<unknown>")
tokenizer.save_pretrained("small-qwen3")
base.save_pretrained("small-qwen3")

# %%
# needs: transformers, peft, bitsandbytes
from peft import LoraConfig, PeftModel, get_peft_model, prepare_model_for_kbit_training
from transformers import BitsAndBytesConfig

name = MODEL or "small-qwen3"
device = device if device.type == "cuda" else torch.device("cpu")  # bitsandbytes trains on these two
dtype = torch.float16 if half else torch.float32  # not bfloat16: a T4 has no units for it
four_bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=dtype)


def load():
    return AutoModelForCausalLM.from_pretrained(name, quantization_config=four_bits, dtype=dtype, device_map={"": device})


# %%
# needs: transformers, peft, bitsandbytes
def with_an_adapter():
    model = prepare_model_for_kbit_training(load(), gradient_checkpointing_kwargs={"use_reentrant": False})
    model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM"))
    assert {p.dtype for p in model.parameters() if p.requires_grad} == {torch.float32}  # or GradScaler refuses
    return model


tokenizer, model = AutoTokenizer.from_pretrained(name), with_an_adapter()
model.print_trainable_parameters()

# %% [markdown]
# It says 17% and not 21, because it counts the adapter in the total. If you leave the four bits out, for an adapter beside weights in 16 bits,
# `get_peft_model` may end with "Found an incompatible version of torchao" on Colab, whose image has an older one than peft accepts. Then run `%pip
# uninstall -y torchao` first; with 4-bit layers peft doesn't ask for it.
#
# Your data are pairs of a question and an answer. Replace ours by yours. Only the answer has *labels*; the question gets -100, which the loss
# leaves out. Each answer ends with the tokenizer's token for the end.

# %%
# needs: transformers, peft, bitsandbytes
def pairs(rows):
    return [(data.spell(row[:6]), data.spell(row[6:9])) for row in rows.cpu().numpy()]


def encode(pairs):
    ids, labels = [], []
    for question, answer in pairs:
        asked = tokenizer(question, add_special_tokens=False).input_ids
        said = [*tokenizer(answer, add_special_tokens=False).input_ids, tokenizer.eos_token_id]
        ids.append(torch.tensor(asked + said))
        labels.append(torch.tensor([-100] * len(asked) + said))
    pad = partial(nn.utils.rnn.pad_sequence, batch_first=True, padding_side="left")  # so that answers come last
    return pad(ids, padding_value=tokenizer.pad_token_id).to(device), pad(labels, padding_value=-100).to(device)


# %%
# needs: transformers, peft, bitsandbytes
def ask(model, questions):
    inputs = tokenizer(questions, return_tensors="pt", padding=True, padding_side="left", add_special_tokens=False, return_token_type_ids=False).to(device)
    written = model.generate(**inputs, max_new_tokens=8, do_sample=False)
    return tokenizer.batch_decode(written[:, inputs.input_ids.shape[1] :], skip_special_tokens=True)


# %%
# needs: transformers, peft, bitsandbytes
learn, test = pairs(minus), pairs(minus_test)
ten = [question for question, _ in test[:10]]
before = ask(load(), ten)  # another copy: on some CPUs, bitsandbytes gives wrong gradients to a model that has answered
recipe = {"steps": STEPS, "lr": 2e-4 if MODEL else 1e-2, "batch_size": 16 if MODEL else 128, "pad": tokenizer.pad_token_id}
train(model, *encode(learn), **recipe)
after = ask(model, ten)

# %%
# needs: transformers, peft, bitsandbytes
with model.disable_adapter():
    off = ask(model, ten)
print("question  wanted  before    after     unplugged")
for row in zip(ten, [answer for _, answer in test], before, after, off):
    print("{:8}  {:6}  {:8}  {:8}  {:8}".format(*row))
in_ten = sum(said == answer for said, (_, answer) in zip(after, test))
print(f"{in_ten} of 10 right")

# %%
# @title All the others { display-mode: "form" }
# needs: transformers, peft, bitsandbytes
def score(model, pairs, digits=None):
    said = ask(model, [question for question, _ in pairs])
    return 100 * sum(text[:digits] == answer for text, (_, answer) in zip(said, pairs)) / len(pairs)


few = 100 if MODEL else None  # a real model writes slowly
subtracts = score(model, test[:few])
with model.disable_adapter():
    adds = score(model, pairs(plus_test)[:few], digits=3)
print(f"{subtracts:.1f}% of new subtractions right. Unplugged: {adds:.1f}% of additions, written backwards")

# %% [markdown]
# The base rambles on until it's cut off. The trained model answers and stops. Without its adapter it's the old model again, and rambles as before.
#
# That was a small Qwen3. On a T4, run `%pip install bitsandbytes`, which replaces nothing, set `MODEL = "Qwen/Qwen3-0.6B"` at the top, and run the
# lesson again. Everything from `load()` on then applies to the real one. It can subtract already, but it doesn't write results backwards, so that's
# what it learns. We have no stored run of it: yours will be the first that you see.

# %% [markdown] tags=["minutes-4", "short-0"]
# ## Traps
#
# The end token first, because people notice it too late. Many recipes use it for padding, too, and then leave all padding out of the loss.

# %%
# needs: transformers, peft, bitsandbytes
ids, labels = encode(learn)
labels = labels.masked_fill(labels == tokenizer.eos_token_id, -100)  # WRONG: the end is masked, too
endless = with_an_adapter()
train(endless, ids, labels, **recipe | {"steps": STEPS // 2})  # half of it is enough to see
wrote = ask(endless, [question for question, _ in test[:few]])
stops = 100 * sum(len(text) == 3 for text in wrote) / len(wrote)
print(*wrote[:5], sep="   ")
print(f"{stops:.0f}% of these answers stop")

# %% [markdown]
# The answers begin well, and they don't end. Give padding a token of its own, therefore, or build the labels as we did, from each answer. The next
# cell shows two more mistakes.

# %%
layer = nn.Linear(8, 8, dtype=torch.float16)  # WRONG: an adapter in fp16
scaler = torch.amp.GradScaler("cpu")
scaler.scale(layer(torch.ones(1, 8, dtype=torch.float16)).sum()).backward()
try:
    scaler.step(torch.optim.SGD(layer.parameters()))
except ValueError as error:
    print("an adapter in fp16:", error)
rates = chip_throughput.rates("T4")
slower = rates["fp16"].value / rates["bf16"].value
print(f"bf16 on a T4: {rates['bf16'].value / 1e12:.1f} TFLOP/s, {slower:.0f} times slower than fp16")

# %% [markdown]
# Keep adapters in fp32, and check it with the `assert` above. On a T4, `torch.cuda.is_bf16_supported()` says yes, because PyTorch emulates it;
# TRL's trainer takes bf16 unless you say `fp16=True, bf16=False`. Since transformers 5, `load_in_4bit` belongs in a `BitsAndBytesConfig`; elsewhere
# it's a TypeError. FlashAttention 2 doesn't run on a T4: leave out `attn_implementation`, and PyTorch's own attention is used. A chat model expects
# its chat format, so build questions with `tokenizer.apply_chat_template`.

# %% [markdown] tags=["minutes-1", "short-0"]
# ## Take it home

# %%
# needs: transformers, peft, bitsandbytes
model.save_pretrained("subtracts")
print(*(f"{path.name}: {path.stat().st_size:,} B" for path in sorted(Path("subtracts").iterdir())), sep="\n")
again = PeftModel.from_pretrained(load(), "subtracts")
print("reloaded:", "the same ten answers" if ask(again, ten) == after else "OTHER answers")

# %% [markdown]
# This folder is what you keep, on Drive, as in lesson 09. For the real models above it has 20 to 90 MB, and everybody can download the base.
# `model.push_to_hub("you/subtracts")` shares it. Its token belongs in Colab's secrets, never in a cell. Before you share, read the license of the
# base. Qwen3's is Apache 2.0.

# %% [markdown] tags=["minutes-7", "short-0"]
# ## Exercises
#
# ### 1 · How large is the adapter?
#
# A layer takes 4,096 numbers and gives 12,288. How many weights does an adapter of rank 16 beside it have, and what percentage of the layer's own
# weights is that?

# %% tags=["exercise"]
adapter = {"weights": ..., "percent": ...}
### BEGIN SOLUTION
adapter = {"weights": 16 * (4096 + 12288), "percent": 100 * 16 * (4096 + 12288) / (4096 * 12288)}
### END SOLUTION
exercises.check("15.adapter", adapter)

# %% [markdown]
# ### 2 · Merge it
#
# The adapter's two matmuls slow the model down when it answers. Write `merged`: from a `LoRA` layer it makes an `nn.Linear` that gives the same
# numbers, with the adapter inside its weight.

# %% tags=["exercise"]
def merged(layer):
    return ...


### BEGIN SOLUTION
def merged(layer):
    out_features, in_features = layer.shape
    linear = nn.Linear(in_features, out_features, bias=layer.bias is not None)
    linear.weight.data = unpack(layer.packed, layer.scale, layer.shape) + layer.plugged * layer.lora_B.weight.data @ layer.lora_A.weight.data
    if layer.bias is not None:
        linear.bias.data = layer.bias.data
    return linear


### END SOLUTION
exercises.check("15.merge", merged, adapter=LoRA)

# %% [markdown]
# ### 3 · Keep both
#
# Which rows must an adapter be trained with, so that the model subtracts *and* still adds while it's plugged in? Make `mixture`, at most 10,000
# rows that end with `END`.

# %% tags=["exercise"]
mixture = ...  # one tensor of rows
### BEGIN SOLUTION
mixture = torch.cat([minus, F.pad(plus, (0, 1), value=END)[torch.randperm(len(plus))[: len(minus)]]])
### END SOLUTION
exercises.check("15.mixture", mixture)

# %%
# needs: transformers
if mixture is not ...:
    both = train(adapt(copy.deepcopy(base)), mixture, answers_of(mixture), STEPS, lr=1e-2)
    print(f"{right(both, minus_test):.1f}% of subtractions, {right(both, F.pad(plus_test, (0, 1), value=END)):.1f}% of additions")

# %% [markdown] tags=["minutes-1"]
# ## Three things to take away

# %%
takeaways = {}
if "peaks" in globals():
    takeaways["A new skill is an adapter"] = f"plugged in, {plugged[1]:.0f}% of subtractions; unplugged, {taken_out[0]:.0f}% of additions. With all weights trained, {plus_whole:.0f}%."
    takeaways["Rehearse before you choose"] = f"for 0.6 billion weights, four bits save {saved:.1f} GB, and fewer logits {falls[-1]:.1f} GB. For 8 billion, four bits decide."
if "stops" in globals():
    takeaways["Teach it to stop"] = f"with the end token masked, {stops:.0f}% of the answers stopped."
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Keep your numbers as a record { display-mode: "form" }
value, guess, inventory = measurements.Value, measurements.Prediction, hardware.list_devices()
values, guesses = {"bf16_slower": value(slower, "×", "bf16 against fp16 on a T4, as measured by others")}, {}
if "peaks" in globals():
    guesses |= {"plus_left": guess(plus_left, plus_whole, "%"), "unplugged": guess(unplugged, answer)}
    guesses |= {"four_bits_save": guess(four_bits_save, saved, "GB"), "largest": guess(largest, found)}
    values |= {
        "plus_base": value(plus_base, "%", "additions right, base"),
        "minus_base": value(minus_base, "%", "subtractions right, base"),
        "minus_whole": value(minus_whole, "%", "subtractions right, all weights trained"),
        "plus_whole": value(plus_whole, "%", "additions right, all weights trained"),
        "plus_packed": value(packed[0], "%", "additions right, in four bits, before the adapter trains"),
        "minus_adapter": value(plugged[1], "%", "subtractions right, with the adapter"),
        "plus_adapter": value(plugged[0], "%", "additions right, with the adapter"),
        "plus_unplugged": value(taken_out[0], "%", "additions right, adapter unplugged"),
        "adapter_share": value(share, "%", "weights of the adapter, of the small model's"),
        "less": value(costs["all weights"] / costs["four bits and an adapter"], "×", "bytes of weights, gradients and Adam: all against four bits and an adapter"),
        "whole_peak": value(peaks["all weights"], "B", "peak of training all of Qwen3 0.6B, rehearsed"),
        "four_bits_saved": value(saved * 1e9, "B", "saved by four bits there, rehearsed"),
        "least_peak": value(peaks["… logits of answers only"], "B", "peak with all four steps, rehearsed"),
        "largest_fits": value(float(found[:-1]), "", "billion weights of the largest Qwen3 that a T4 trains, planned"),
    }
if "stops" in globals():
    values |= {
        "library": value(subtracts, "%", "subtractions right, transformers, peft and bitsandbytes"),
        "library_unplugged": value(adds, "%", "additions right, their adapter unplugged"),
        "stops": value(stops, "%", "answers that stop when the end token was masked"),
    }
measurements.record("15_fine_tune", FAST, device=inventory.main, predicted=guesses, **values)

# %% [markdown] tags=["minutes-0"]
# ## Keep this, and what comes next
#
# ```python
# import torch
# from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
# from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
#
# name, pairs = "Qwen/Qwen3-0.6B", [("47-38=", "900"), ("50-03=", "740")]  # yours
# tokenizer = AutoTokenizer.from_pretrained(name)
# four_bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=torch.float16)
# model = AutoModelForCausalLM.from_pretrained(name, quantization_config=four_bits, dtype=torch.float16, device_map={"": 0})
# model = prepare_model_for_kbit_training(model, gradient_checkpointing_kwargs={"use_reentrant": False})
# model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM")).train()
# weights = [p for p in model.parameters() if p.requires_grad]
# optimizer, scaler = torch.optim.AdamW(weights, lr=2e-4), torch.amp.GradScaler(model.device.type)
# for question, answer in pairs * 10:  # one at a time: no padding
#     asked, said = (tokenizer(text, add_special_tokens=False).input_ids for text in (question, answer))
#     ids = torch.tensor([[*asked, *said, tokenizer.eos_token_id]], device=model.device)
#     keep = len(said) + 2  # the answer, its end, and the token before
#     with torch.autocast(model.device.type, torch.float16):  # never bf16 on a T4
#         loss = model(input_ids=ids, labels=ids[:, -keep:], logits_to_keep=keep).loss
#     scaler.scale(loss).backward()
#     scaler.unscale_(optimizer)
#     torch.nn.utils.clip_grad_norm_(weights, 1.0)
#     scaler.step(optimizer)
#     scaler.update()
#     optimizer.zero_grad()
# model.save_pretrained("adapter")  # PeftModel.from_pretrained(base, "adapter") plugs it in again
# ```
#
# A test runs these lines with the small Qwen3.
#
# **An open task.** Write fifty pairs of your own, in your own words, and teach them to a real model. Keep ten aside. How many does it get right
# that it has never seen, and what did it forget?
#
# A model that you made your own is of no use until somebody can talk to it. Lesson 16 serves one, and works out how many people a chip can answer at
# the same time.
