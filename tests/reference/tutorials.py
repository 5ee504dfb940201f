"""The tiny models that the tutorials are tried with (tests/people/tutorials.rs), and what `transformers` makes of them.

    python tests/reference/tutorials.py

with transformers 5.24 and PyTorch 2.15 on the CPU writes tutorials/: `bert` and `gpt2`, directories as `save_pretrained` leaves them, with
tokenizers that are learnt from sentences like those of the tutorials; `resnet18.pth`, a state dictionary with torchvision's names and
little width; and `expected.json`: conversations by several chat templates, the perplexity of tokens, and what is written after a prompt.
"""

import json
import math
import shutil
import sys
from pathlib import Path

# Next to this file is one called as a package.
sys.path = [path for path in sys.path if not path.endswith("reference")]

import torch
from torch import nn
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertForPreTraining, GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

PLACE = Path(__file__).parent / "tutorials"
SUBJECTS = ["film", "plot", "acting", "music", "ending", "dialogue"]
JUDGEMENTS = ["wonderful", "moving", "clever", "dull", "tiresome", "clumsy"]
SENTENCES = [f"The {subject} was {judgement}." for subject in SUBJECTS for judgement in JUDGEMENTS]
QUESTIONS = [f"What is the capital of {country}? {city}." for country, city in [("France", "Paris"), ("Italy", "Rome"), ("Japan", "Tokyo")]]
# ChatML as Qwen's, without its tools.
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] | trim + '<|im_end|>' + '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def bert():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(SENTENCES, trainers.WordPieceTrainer(vocab_size=120, special_tokens=special, show_progress=False))
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=32, initializer_range=0.2,
    )
    save(BertForPreTraining(config), tokenizer, "bert")


def save(model, tokenizer, name):
    model.save_pretrained(PLACE / name)
    tokenizer.save_pretrained(PLACE / name)


def gpt2():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=320, special_tokens=special, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(QUESTIONS + SENTENCES, trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<|endoftext|>", eos_token="<|endoftext|>")
    tokenizer.chat_template = TEMPLATE
    config = GPT2Config(
        vocab_size=len(tokenizer), n_positions=96, n_embd=32, n_layer=2, n_head=4, initializer_range=0.2, bos_token_id=0, eos_token_id=0
    )
    model = GPT2LMHeadModel(config).eval()
    save(model, tokenizer, "gpt2")
    return model.double(), tokenizer


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
        if stride > 1:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))


class ResNet(nn.Module):
    """The names of torchvision's; two blocks a stage, as ResNet-18."""

    def __init__(self, width=2):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        for stage in range(4):
            outputs = width << stage
            first = Block(outputs if stage == 0 else outputs // 2, outputs, 1 if stage == 0 else 2)
            setattr(self, f"layer{stage + 1}", nn.Sequential(first, Block(outputs, outputs, 1)))
        self.fc = nn.Linear(width << 3, 1000)


def conversations(tokenizer):
    """What templates as those of the families make of conversations."""
    llama = (
        "{{- bos_token }}{%- for message in messages %}{%- set content = '<|start|>' + message['role'] + '<|end|>\\n\\n' + "
        "message['content'] | trim + '<|eot|>' %}{{- content }}{%- endfor %}{%- if add_generation_prompt %}{{- '<|start|>assistant<|end|>\\n\\n' }}{%- endif %}"
    )
    mistral = (
        "{%- if messages[0]['role'] == 'system' %}{%- set system = messages[0]['content'] %}{%- set rest = messages[1:] %}"
        "{%- else %}{%- set rest = messages %}{%- endif %}{{- bos_token }}{%- for message in rest %}"
        "{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{- raise_exception('roles must alternate') }}{%- endif %}"
        "{%- if message['role'] == 'user' %}{%- if loop.first and system is defined %}{{- ' [INST] ' + system + '\\n\\n' + message['content'] + ' [/INST]' }}"
        "{%- else %}{{- ' [INST] ' + message['content'] + ' [/INST]' }}{%- endif %}{%- else %}{{- ' ' + message['content'] + eos_token }}{%- endif %}{%- endfor %}"
    )
    zephyr = (
        "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\\n' + message['content'] + eos_token }}\n"
        "{% elif message['role'] == 'system' %}\n{{ '<|system|>\\n' + message['content'] + eos_token }}\n"
        "{% elif message['role'] == 'assistant' %}\n{{ '<|assistant|>\\n'  + message['content'] + eos_token }}\n{% endif %}\n"
        "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}"
    )
    python = (
        "{%- set ns = namespace(count=0) -%}{% for message in messages if message.content %}{% set ns.count = ns.count + 1 -%}"
        "{{ message.role.upper().replace('USER', 'human') ~ ' ' ~ ns.count ~ ': ' ~ message['content'].strip().split('\\n')[-1].lstrip('- ') "
        "~ ('!' if message.content.endswith('?') else '.') ~ (message.content | tojson) ~ '\\n' }}{% endfor %}"
    )
    talks = [
        [("user", " What is it? "), ("assistant", "A capital.\n")],
        [("system", "Be brief."), ("user", "What is \"x\"?\n- really <now>"), ("assistant", "An é & a 東."), ("user", "Why?"), ("assistant", "Who knows?")],
    ]
    found = []
    for name, template in {"chatml": TEMPLATE, "llama": llama, "mistral": mistral, "zephyr": zephyr, "python": python}.items():
        tokenizer.chat_template = template
        for talk in talks:
            messages = [{"role": role, "content": content} for role, content in talk]
            text = tokenizer.apply_chat_template(messages, tokenize=False)
            found.append({"name": name, "template": template, "messages": messages, "text": text})
    return found


def perplexity(model, tokens, context):
    """Of windows that follow each other, each token but the first of the file a target once."""
    windows = [tokens[at : at + context + 1] for at in range(0, len(tokens) - context, context)]
    with torch.no_grad():
        losses = [nn.functional.cross_entropy(model(torch.tensor([w[:-1]])).logits[0], torch.tensor(w[1:])) for w in windows]
    return math.exp(sum(losses).item() / len(losses))


shutil.rmtree(PLACE, ignore_errors=True)
torch.manual_seed(5)
bert()
model, tokenizer = gpt2()
net = ResNet()
torch.save(net.state_dict(), PLACE / "resnet18.pth")
text = " ".join(QUESTIONS + SENTENCES)
prompt = "The capital"
# An end that is written is a token as others here.
ids = tokenizer(prompt, return_tensors="pt")
model.generation_config.eos_token_id = None
written = model.generate(**ids, max_new_tokens=64, do_sample=False, pad_token_id=0)[0, ids["input_ids"].shape[1] :]
expected = {
    "text": text,
    "context": 96,
    "perplexity": perplexity(model, tokenizer(text)["input_ids"], 96),
    "prompt": prompt,
    "written": tokenizer.decode(written, skip_special_tokens=False),
    "ids": written.tolist(),
    "bos": "<|endoftext|>",
    "chats": conversations(tokenizer),
}
(PLACE / "expected.json").write_text(json.dumps(expected, ensure_ascii=False, indent=1) + "\n")
for file in PLACE.rglob("*.safetensors"):
    file.chmod(0o644)
