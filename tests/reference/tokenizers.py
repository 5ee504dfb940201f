"""Writes tokenizers.json: tokenizers of the kinds in use, and what Hugging Face's `tokenizers` makes of some texts.

    python tests/reference/tokenizers.py > tests/reference/tokenizers.json

Each tokenizer has its `json`, and `texts` with their ids, the ids with the tokens that it puts around a text, and the text that
comes back of each, with and without special tokens. `learnt` is trained by byte pairs on `corpus`.
"""

import json
import sys

# This file has the package's name.
sys.path = [path for path in sys.path if not path.endswith("reference")]

from tokenizers import AddedToken, Regex, Tokenizer, __version__
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

CORPUS = [
    "Before we proceed any further, hear me speak.\n\nAll:\nSpeak, speak.\n",
    "You are all resolved rather to die than to famish?\n",
    "Die Würde des Menschen ist unantastbar. Sie zu achten und zu schützen ist Verpflichtung aller staatlichen Gewalt.\n",
    "fn main() { println!(\"{}\", 12345 + 67890); }\n",
    "東京は日本の首都です。🙂🙂\n",
]

TEXTS = [
    "",
    " ",
    "speak",
    "Before we speak, 12345 times.\n\n\n  All: die?",
    "Menschen schützen <|endoftext|>Würde [SEP] x",
    "日本🙂 \t\r\n tab\u00a0nbsp é e\u0301",
    "It's they'll I'M    spaces",
]


def learnt(size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def llama():
    """Llama 3's pattern, and a token before each text."""
    tokenizer = learnt(300)
    pattern = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.add_special_tokens(["<|begin_of_text|>"])
    begin = tokenizer.token_to_id("<|begin_of_text|>")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", begin)]
    )
    return tokenizer


def sentencepiece():
    """Byte pairs of characters with bytes for the rest, as Llama 2's and Mistral's."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=340, special_tokens=special, limit_alphabet=40, show_progress=False)
    tokenizer.train_from_iterator(CORPUS[:3], trainer)
    data = json.loads(tokenizer.to_str())
    data["added_tokens"] = data["added_tokens"][:3]
    return Tokenizer.from_str(json.dumps(data))


def bert():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=150, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def expected(tokenizer, text):
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    wrapped = tokenizer.encode(text).ids
    return {
        "text": text,
        "ids": ids,
        "wrapped": wrapped,
        "decoded": tokenizer.decode(ids, skip_special_tokens=False),
        "plain": tokenizer.decode(wrapped, skip_special_tokens=True),
    }


kinds = {"gpt2": learnt(320), "llama": llama(), "sentencepiece": sentencepiece(), "bert": bert()}
written = {
    "tokenizers": __version__,
    "corpus": CORPUS,
    "kinds": {
        name: {
            "json": json.loads(tokenizer.to_str()),
            "texts": [expected(tokenizer, text) for text in TEXTS],
        }
        for name, tokenizer in kinds.items()
    },
}
print(json.dumps(written, ensure_ascii=False, separators=(",", ":")))
