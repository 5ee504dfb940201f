"""Tiny models of transformers, with inputs and outputs, for host/nn/src/models/transformers/tests.rs.

python transformers_models.py DIRECTORY, with transformers 5.24 and PyTorch 2.15 on the CPU: a directory for each model, with the
`config.json` and `model.safetensors` that transformers writes, and `reference.json`. `initializer_range` is 0.2: with the default of 0.02 a
wrong nonlinearity changes outputs by less than rounding does elsewhere.
"""

import json
import pathlib
import sys
import tempfile

# Next to this file is one called as a package.
sys.path = [path for path in sys.path if not path.endswith("reference")]

import torch
from safetensors.torch import load_file
from transformers import (
    BertConfig, BertForMaskedLM, BertForSequenceClassification, ConvNextConfig, ConvNextForImageClassification, GPT2Config,
    GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config,
    Qwen3ForCausalLM, ResNetConfig, ResNetForImageClassification, ViTConfig, ViTForImageClassification,
)

STEPS = 20
SAMPLED = 16
TOKENS = 40
LABELS = {"id2label": {0: "a", 1: "b", 2: "c"}, "label2id": {"a": 0, "b": 1, "c": 2}}
LLAMA = {
    "vocab_size": TOKENS,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32,
    "initializer_range": 0.2,
}
GPT2 = GPT2Config(
    vocab_size=TOKENS, n_positions=24, n_embd=32, n_layer=2, n_head=4, initializer_range=0.2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
)
BERT = {
    "vocab_size": TOKENS,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
    "initializer_range": 0.2,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
THETA = {"rope_parameters": {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}}
RESNET = {"embedding_size": 8, "hidden_sizes": [16, 32], "depths": [2, 1]}
MODELS = {
    "gpt2": lambda: GPT2LMHeadModel(GPT2),
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**LLAMA, **THETA)),
    "llama-tied": lambda: LlamaForCausalLM(LlamaConfig(**LLAMA, tie_word_embeddings=True, attention_bias=True, mlp_bias=True)),
    "mistral": lambda: MistralForCausalLM(MistralConfig(**LLAMA, sliding_window=5)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**LLAMA)),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**LLAMA, head_dim=16)),
    "bert": lambda: BertForSequenceClassification(BertConfig(**BERT, **LABELS)),
    "bert-language": lambda: BertForMaskedLM(BertConfig(**{**BERT, "num_hidden_layers": 1})),
    "vit": lambda: ViTForImageClassification(
        ViTConfig(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=16, patch_size=4,
            initializer_range=0.2, **LABELS,
        )
    ),
    "resnet": lambda: ResNetForImageClassification(ResNetConfig(**RESNET, layer_type="bottleneck", **LABELS)),
    "resnet-basic": lambda: ResNetForImageClassification(ResNetConfig(**{**RESNET, "hidden_sizes": [8, 16]}, layer_type="basic", **LABELS)),
    "convnext": lambda: ConvNextForImageClassification(
        ConvNextConfig(num_stages=2, hidden_sizes=[8, 16], depths=[2, 1], initializer_range=0.2, layer_scale_init_value=0.5, **LABELS)
    ),
}
LENGTHS = {"bert": [32, 20, 7, 1]}


def rounded(tensor):
    return [float(f"{value:.9g}") for value in tensor.detach().flatten().tolist()]


def varied(model):
    """Norms and biases start as ones and zeros, which hide mistakes."""
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if tensor.dim() == 1 and tensor.is_floating_point():
                noise = 0.1 * torch.randn_like(tensor)
                tensor.add_(noise.abs() if name.endswith("running_var") else noise)


def inputs(name, length):
    if name.split("-")[0] in ("vit", "resnet", "convnext"):
        return {"pixel_values": (100 * torch.randn(2, 3, 16, 16, dtype=torch.float64)).round() / 100}
    given = {"input_ids": torch.randint(1, TOKENS, (2, length))}
    if name.startswith("bert"):
        given["token_type_ids"] = torch.randint(0, 2, (2, length))
        given["input_ids"][:, 0] = 0
    return given


def written(given):
    """Inputs as JSON."""
    return {key: {"shape": list(value.shape), "values": rounded(value) if value.is_floating_point() else value.flatten().tolist()} for key, value in given.items()}


def sample(tensor):
    """Some of a parameter's elements, evenly apart."""
    flat = tensor.detach().flatten()
    step = -(-len(flat) // SAMPLED)
    return rounded(flat[::step])


def losses(model, given, targets):
    """AdamW, with PyTorch's defaults and a rate of 1e-3: the losses, and what is trained after them."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    found = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        logits = model(**given).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, -2), targets.flatten())
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    with tempfile.TemporaryDirectory() as directory:
        # In files ViT's weights have other names than in memory.
        model.save_pretrained(directory)
        trained = load_file(f"{directory}/model.safetensors")
    return {"losses": found, "trained": {name: sample(value) for name, value in trained.items() if value.is_floating_point()}}


def main(root):
    for name, make in MODELS.items():
        torch.manual_seed(11)
        model = make().eval()
        varied(model)
        model.float()
        directory = root / name
        model.save_pretrained(directory)
        (directory / "generation_config.json").unlink(missing_ok=True)
        model.double()
        model.set_attn_implementation("eager") if not name.startswith(("resnet", "convnext")) else None
        cases = []
        for length in LENGTHS.get(name, [12]):
            given = inputs(name, length)
            with torch.no_grad():
                y = model(**given).logits
            cases.append({"inputs": written(given), "outputs": {"shape": list(y.shape), "values": rounded(y)}})
        given = inputs(name, 12)
        y = model(**given).logits
        targets = torch.randint(0, y.shape[-1], y.shape[:-1])
        training = {"inputs": written(given), "targets": targets.flatten().tolist(), **losses(model, given, targets)}
        (directory / "reference.json").write_text(json.dumps({"cases": cases, "training": training}))


main(pathlib.Path(sys.argv[1]))
