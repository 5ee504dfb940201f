"""Trained models of every family as directories of `transformers`: that library loads them without a word, gives what `sconce predict`
gives, and what it writes of them is the same model again. Run it with a Python that has numpy, torch and transformers.

usage: tests/to_transformers.py [SCONCE]    default: target/release/sconce
"""
import json, logging, os, subprocess, sys, tempfile, warnings
from pathlib import Path

os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "warning"}
import numpy as np
import torch
import transformers
from safetensors.torch import load_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors

SCONCE = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "target/release/sconce")
numbers = np.random.default_rng(5)
said = []


class Said(logging.Handler):
    """What `transformers` says of a model."""

    def emit(self, record):
        said.append(record.getMessage())


warnings.showwarning = lambda message, *_: said.append(str(message))
transformers.utils.logging.disable_progress_bar()
logging.getLogger("transformers").addHandler(Said(logging.WARNING))


def sconce(*arguments):
    run = subprocess.run([SCONCE, *map(str, arguments)], capture_output=True, text=True)
    assert run.returncode == 0, f"{arguments}: {run.stdout}{run.stderr}"
    return run.stdout


def trained(place, data, config, **more):
    """A model with this `config.json`, trained from weights of `transformers`, as a directory of `transformers`; loads that."""
    torch.manual_seed(7)
    kind = more.pop("kind")
    kind(config).save_pretrained(place / "base")
    run = {
        "seed": 3, "data": data, "model": {"kind": "transformers", "config": "base"}, "weights": {"file": "base"}, "threads": 1,
        "optimizer": {"kind": "adamw", "learning_rate": 0.01}, "train": {"epochs": 1, "batch_size": 8}, "output": str(place / "run"),
    }
    (place / "run.json").write_text(json.dumps(run | more))
    sconce("run", place / "run.json")
    sconce("export", place / "run", "--format", "transformers", "--output", place / "out")
    # With its own classes, and nothing that is missing or too much.
    said.clear()
    name = json.loads((place / "out/config.json").read_text())["architectures"][0]
    model, info = getattr(transformers, name).from_pretrained(place / "out", output_loading_info=True)
    assert not said and not any(info.values()), (said, info)
    return model.eval()


def predicted(place, file, *more):
    return [json.loads(line) for line in sconce("predict", place / "run", "--input", file, *more).splitlines()]


def compare(what, place, file, found, expected):
    """Outputs, and those of the weights that `transformers` writes itself."""
    difference = np.abs(found - expected).max()
    assert difference < 1e-5, (what, difference)
    ours, theirs = (load_file(place / of / "model.safetensors") for of in ("out", "again"))
    assert ours.keys() == theirs.keys(), ours.keys() ^ theirs.keys()
    assert all(torch.equal(ours[weight], theirs[weight]) and ours[weight].dtype == theirs[weight].dtype for weight in ours), what
    again = ("--checkpoint", place / "again/model.safetensors")
    assert predicted(place, file, *again) == predicted(place, file), what
    print(f"ok: {what}", flush=True)


def language(what, kind, config, **more):
    with tempfile.TemporaryDirectory() as place:
        place = Path(place)
        words = "the quick brown fox jumps over the lazy dog, and the dog sleeps on. " * 8
        (place / "text.txt").write_text(words)
        data = {"kind": "text", "file": "text.txt", "context": 16, "val": {"fraction": 0.2}}
        model = trained(place, data, config, kind=kind, **more)
        model.save_pretrained(place / "again")
        whole = [answer for answer in predicted(place, place / "text.txt") if len(answer["probabilities"]) == 16]
        tokens = torch.tensor(np.frombuffer(words.encode(), np.uint8).astype(np.int64)[: 16 * len(whole)].reshape(-1, 16))
        with torch.no_grad():
            likely = model(tokens).logits.softmax(-1).max(-1).values
            assert model.generate(tokens[:1], max_new_tokens=3, do_sample=False, pad_token_id=0).shape == (1, 19)
        compare(what, place, place / "text.txt", likely.numpy(), np.array([answer["probabilities"] for answer in whole]))


def images(what, kind, config):
    with tempfile.TemporaryDirectory() as place:
        place = Path(place)
        x, y = numbers.normal(size=(24, 3, 16, 16)).astype(np.float32), (np.arange(24) % 3).astype(np.int64)
        np.save(place / "x.npy", x)
        np.save(place / "y.npy", y)
        data = {"kind": "npy", "inputs": "x.npy", "targets": "y.npy", "classes": ["ash", "birch", "cedar"], "val": {"count": 8}}
        model = trained(place, data, config, kind=kind)
        model.save_pretrained(place / "again")
        names = [model.config.id2label[number] for number in range(3)]
        answers = predicted(place, place / "x.npy")
        with torch.no_grad():
            likely = model(torch.tensor(x)).logits.softmax(-1)
        compare(what, place, place / "x.npy", likely.numpy(), np.array([[answer["probabilities"][name] for name in names] for answer in answers]))


def texts(what, kind, config):
    """Classes of texts, with a tokenizer that goes along."""
    with tempfile.TemporaryDirectory() as place:
        place = Path(place)
        words = "[PAD] [UNK] [CLS] [SEP] good bad fine poor film book very not".split()
        tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", None, [("[CLS]", 2), ("[SEP]", 3)])
        tokenizer.add_special_tokens(words[:4])
        tokenizer.save(str(place / "tokenizer.json"))
        rows = [{"text": " ".join(numbers.choice(words[4:], 1 + number % 5)), "label": "ab"[number % 2]} for number in range(40)]
        (place / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        data = {"kind": "jsonl", "file": "rows.jsonl", "tokenizer": "tokenizer.json", "context": 8, "text": "text", "label": "label",
                "val": {"count": 8}}
        model = trained(place, data, config, kind=kind)
        model.save_pretrained(place / "again")
        said.clear()
        tokenizer = transformers.AutoTokenizer.from_pretrained(place / "out")
        assert (tokenizer.pad_token, tokenizer.cls_token, tokenizer.unk_token) == ("[PAD]", "[CLS]", "[UNK]"), tokenizer
        given = tokenizer([row["text"] for row in rows], padding=True, return_tensors="pt")
        with torch.no_grad():
            likely = model(**given).logits.softmax(-1)
        assert not said, said
        answers = predicted(place, place / "rows.jsonl")
        names = [model.config.id2label[number] for number in range(2)]
        compare(what, place, place / "rows.jsonl", likely.numpy(), np.array([[answer["probabilities"][name] for name in names] for answer in answers]))


LLAMA = {"vocab_size": 256, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 32, "initializer_range": 0.2}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "initializer_range": 0.2}
gpt2 = lambda: transformers.GPT2Config(vocab_size=256, n_positions=24, **GPT2)
t = transformers
language("gpt2", t.GPT2LMHeadModel, gpt2())
language("gpt2 with adapters", t.GPT2LMHeadModel, gpt2(), adapt={"kind": "lora", "rank": 2, "train": ["transformer.ln_f.*"]})
language("llama", t.LlamaForCausalLM, t.LlamaConfig(**LLAMA))
language("llama, tied", t.LlamaForCausalLM, t.LlamaConfig(**LLAMA, tie_word_embeddings=True, attention_bias=True, mlp_bias=True))
language("mistral", t.MistralForCausalLM, t.MistralConfig(**LLAMA, sliding_window=5))
language("qwen2", t.Qwen2ForCausalLM, t.Qwen2Config(**LLAMA))
language("qwen3", t.Qwen3ForCausalLM, t.Qwen3Config(**LLAMA, head_dim=16))
small = {**LLAMA, "vocab_size": 12}
del small["num_key_value_heads"]
texts("bert", t.BertForSequenceClassification, t.BertConfig(**small))
texts("gpt2 with a head of classes", t.GPT2ForSequenceClassification, t.GPT2Config(vocab_size=12, n_positions=8, **GPT2))
images("vit", t.ViTForImageClassification, t.ViTConfig(
    hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=16, patch_size=4, initializer_range=0.2))
resnet = {"embedding_size": 8, "hidden_sizes": [16, 32], "depths": [2, 1]}
images("resnet", t.ResNetForImageClassification, t.ResNetConfig(**resnet))
images("resnet of basic blocks", t.ResNetForImageClassification, t.ResNetConfig(**resnet, layer_type="basic"))
images("convnext", t.ConvNextForImageClassification, t.ConvNextConfig(
    num_stages=2, hidden_sizes=[8, 16], depths=[2, 1], initializer_range=0.2, layer_scale_init_value=0.5))
