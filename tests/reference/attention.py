"""Outputs of the attention layers of transformers' models, in f64, with the layers as Sconce's manifest says them.

usage: python attention.py > attention.json
Needs torch and transformers. `host/nn/src/layers/attention/reference_tests.rs` compares outputs and the gradients of all parameters.
Numbers are rounded before they are used, so that the file is short and exact.
"""
import json
import math

import torch
from transformers import BertConfig, GPT2Config, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config
from transformers import BertModel, GPT2Model, LlamaModel, MistralModel, Qwen2Model, Qwen3Model

torch.manual_seed(3)
ROWS, LENGTH, WIDTH = 2, 9, 12
GROUPED = dict(hidden_size=WIDTH, intermediate_size=8, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2, vocab_size=11,
               head_dim=4, max_position_embeddings=64, attn_implementation="eager")
SEPARATE = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "o_proj"}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 50.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}
grouped = lambda **more: {"kind": "attention", "name": "attn", "heads": 4, "kv_heads": 2, "head_width": 4, "causal": True, "projections": SEPARATE, **more}
CASES = {
    "llama": (LlamaModel(LlamaConfig(**GROUPED, rope_parameters=LLAMA3)), lambda model: model.layers[0].self_attn,
              grouped(bias=False, rotary={"base": 50, "scaling": {"kind": "llama3", "factor": 4, "low_frequency_factor": 1,
                                                                  "high_frequency_factor": 4, "original_positions": 16}})),
    "linear scaling": (LlamaModel(LlamaConfig(**GROUPED, rope_parameters={"rope_type": "linear", "rope_theta": 100.0, "factor": 2.0})),
                       lambda model: model.layers[0].self_attn,
                       grouped(bias=False, rotary={"base": 100, "scaling": {"kind": "linear", "factor": 2}})),
    "mistral": (MistralModel(MistralConfig(**GROUPED, sliding_window=3, rope_parameters={"rope_type": "default", "rope_theta": 10000.0})),
                lambda model: model.layers[0].self_attn, grouped(bias=False, rotary=True, window=3)),
    "qwen2": (Qwen2Model(Qwen2Config(**GROUPED, rope_parameters={"rope_type": "default", "rope_theta": 1000.0})),
              lambda model: model.layers[0].self_attn, grouped(bias={"output": False}, rotary={"base": 1000})),
    "qwen3": (Qwen3Model(Qwen3Config(**GROUPED, rms_norm_eps=1e-5, rope_parameters={"rope_type": "default", "rope_theta": 1000.0})),
              lambda model: model.layers[0].self_attn,
              grouped(bias=False, rotary={"base": 1000}, query_norm={"epsilon": 1e-5})),
    "gpt2": (GPT2Model(GPT2Config(n_embd=WIDTH, n_head=3, n_layer=1, n_positions=LENGTH, vocab_size=11, attn_pdrop=0, resid_pdrop=0, embd_pdrop=0,
                                  attn_implementation="eager")),
             lambda model: model.h[0].attn,
             {"kind": "attention", "name": "attn", "heads": 3, "causal": True, "transposed": True,
              "projections": {"packed": "c_attn", "output": "c_proj"}}),
    "bert": (BertModel(BertConfig(hidden_size=WIDTH, num_attention_heads=3, num_hidden_layers=1, intermediate_size=8, vocab_size=11,
                                  max_position_embeddings=LENGTH, attn_implementation="eager")),
             lambda model: model.encoder.layer[0].attention.self,
             {"kind": "attention", "name": "attn", "heads": 3,
              "projections": {"query": "self.query", "key": "self.key", "value": "self.value", "output": "output.dense"}}),
}


def numbers(tensor):
    return [float(f"{x:.8g}") for x in tensor.detach().double().flatten().tolist()]


def case(name, model, find, layer):
    model = model.eval().double()
    # Angles are computed in f32 there; here, as a reference, in f64 from their definition.
    for module in model.modules():
        for buffer in [key for key in dict(module.named_buffers(recurse=False)) if key.endswith("inv_freq")]:
            setattr(module, buffer, exact(getattr(module, buffer), layer))
    attention = find(model)
    if name == "bert":
        # The output's projection, which BERT has in another module, without the sum and the norm that follow there.
        dense = model.encoder.layer[0].attention.output.dense
        parameters = {"self." + key: value for key, value in attention.named_parameters()}
        parameters |= {"output.dense." + key: value for key, value in dense.named_parameters()}
    else:
        parameters = dict(attention.named_parameters())
    with torch.no_grad():
        for parameter in parameters.values():
            parameter.copy_((torch.randn_like(parameter) * 0.3 + (parameter.dim() == 1) * 0.2).mul(1e4).round().div(1e4))
    seen = {}

    def before(module, args, kwargs):
        x = args[0] if args else kwargs["hidden_states"]
        x = (torch.randn_like(x)).mul(1e4).round().div(1e4)
        seen["input"] = x
        return ((x,) + tuple(args[1:]), kwargs) if args else (args, kwargs | {"hidden_states": x})

    def after(module, args, kwargs, output):
        seen["output"] = output[0]

    hooks = [attention.register_forward_pre_hook(before, with_kwargs=True), attention.register_forward_hook(after, with_kwargs=True)]
    model(torch.randint(0, 11, (ROWS, LENGTH)))
    for hook in hooks:
        hook.remove()
    output = seen["output"]
    if name == "bert":
        output = dense(output)
    weights = torch.arange(output.numel()).double().cos().reshape(output.shape)
    gradients = torch.autograd.grad((output * weights).sum(), list(parameters.values()))
    return {
        "layer": layer,
        "parameters": {key: {"shape": list(value.shape), "values": numbers(value)} for key, value in parameters.items()},
        "input": numbers(seen["input"]),
        "output": numbers(output),
        "gradients": {key: numbers(value) for key, value in zip(parameters, gradients)},
    }


def exact(buffer, layer):
    rotary = layer["rotary"] if layer["rotary"] is not True else {}
    count = 2 * len(buffer)
    steps = [rotary.get("base", 10000) ** (-2 * pair / count) for pair in range(len(buffer))]
    scaling = rotary.get("scaling")
    if scaling and scaling["kind"] == "linear":
        steps = [step / scaling["factor"] for step in steps]
    elif scaling:
        low = scaling["original_positions"] / scaling["low_frequency_factor"]
        high = scaling["original_positions"] / scaling["high_frequency_factor"]
        for index, step in enumerate(steps):
            length = 2 * math.pi / step
            smooth = (scaling["original_positions"] / length - scaling["low_frequency_factor"]) / (
                scaling["high_frequency_factor"] - scaling["low_frequency_factor"])
            if length > low:
                steps[index] = step / scaling["factor"]
            elif length >= high:
                steps[index] = (1 - smooth) * step / scaling["factor"] + smooth * step
    found = torch.tensor(steps, dtype=torch.float64)
    assert torch.allclose(found, buffer.double(), rtol=1e-6), (found, buffer)
    return found


print(json.dumps({"rows": ROWS, "length": LENGTH, "width": WIDTH, "cases": {name: case(name, *rest) for name, rest in CASES.items()}},
                 separators=(",", ":")))
