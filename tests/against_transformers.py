"""Training steps of transformers through manifests, beside PyTorch's, `transformers`' and PEFT's: a table of docs/performance.md.

usage: against_transformers.py [--cases gpt2,lora] [--threads 2] [--rounds 2] [--steps 8] [--binary FILE] [--set train.batch_size=2]
                               [--busy]
                               [--alone] [--record FILE]
       against_transformers.py --table FILE

Each case is a `config.json` with random weights and tokens, one row of 256, AdamW, `f32`; ours is a manifest with the kind
`transformers`, run by the `sconce` binary, the peer's the model of the library `transformers` (LoRA: of PEFT) that the same
configuration describes, by this script in a process of its own. They run in turn, A B A B …; the table has the medians over the
rounds. Python must be one that has torch, transformers and peft.

- *CPU s*: user and system time a step, all threads together: what a busy machine changes least. Ours is the difference of two runs
  of different length, over their steps; the peer's is measured around its steps, after two of them.
  On a machine that others use, give `--busy`: PyTorch's threads spin at each barrier, which counted 11 CPU seconds a step for 3.
- *ms*: the median step. *MB*: the peak memory of the process.
- `bar`: what ratio issue 43 asks for, of time; `lora` is also compared with `gpt2` of ours.

Needs `cargo build --release`.
"""
import argparse, json, math, os, pathlib, random, statistics, subprocess, sys, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONTEXT = 256


def gpt2(dropout):
    return {"model_type": "gpt2", "attn_pdrop": dropout, "embd_pdrop": dropout, "resid_pdrop": dropout}


LLAMA = {
    "model_type": "llama", "vocab_size": 50257, "hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12,
    "num_attention_heads": 12, "num_key_value_heads": 12, "max_position_embeddings": 1024, "tie_word_embeddings": True,
}
BERT = {"model_type": "bert"}
BERT_STILL = {**BERT, "attention_probs_dropout_prob": 0.0, "hidden_dropout_prob": 0.0}


class Case:
    def __init__(self, config, bar, vocabulary=50257, classes=0, rank=0):
        self.config, self.bar, self.vocabulary, self.classes, self.rank = config, bar, vocabulary, classes, rank


CASES = {
    "gpt2": Case(gpt2(0.0), 0.70),
    "gpt2-dropout": Case(gpt2(0.1), 0.70),
    "llama": Case(LLAMA, 0.70),
    "bert": Case(BERT, 0.75, 30522, classes=2),
    "bert-still": Case(BERT_STILL, 0.75, 30522, classes=2),
    "lora": Case(gpt2(0.0), 0.75, rank=8),
}


def write_tokens(case, steps, batch, directory):
    """Random tokens for as many steps; `data` of the manifest."""
    drawn = random.Random(0)
    if not case.classes:
        tokens = (drawn.randrange(case.vocabulary) for _ in range((steps * batch + 1) * CONTEXT + 1))
        (directory / "tokens.bin").write_bytes(b"".join(token.to_bytes(2, "little") for token in tokens))
        return {"kind": "tokens", "files": ["tokens.bin"], "vocabulary": case.vocabulary, "context": CONTEXT}
    words = {f"w{index}": index for index in range(case.vocabulary)}
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "post_processor": None,
                 "pre_tokenizer": {"type": "WhitespaceSplit"}, "decoder": None,
                 "model": {"type": "WordLevel", "vocab": words, "unk_token": "w0"}}
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer))
    with (directory / "rows.jsonl").open("w") as file:
        for row in range(steps * batch):
            text = " ".join(f"w{drawn.randrange(1, case.vocabulary)}" for _ in range(CONTEXT))
            file.write(json.dumps({"text": text, "label": row % case.classes}) + "\n")
    return {"kind": "jsonl", "file": "rows.jsonl", "tokenizer": "tokenizer.json", "context": CONTEXT}


def run(command, environment=None):
    """What a process prints, its CPU seconds and its peak memory in MB."""
    process = subprocess.Popen(command, env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE, text=True)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{command} failed")
    return output, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def run_ours(case, steps, arguments):
    """CPU seconds of a whole run of as many steps, its median step in ms, its peak memory and the parts of a step in ms."""
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        manifest = {
            "name": "step",
            "output": "run",
            "plugins": [str(pathlib.Path(arguments.binary).resolve().parent)],
            "threads": arguments.threads,
            "model": {"kind": "transformers", "config": case.config},
            "data": write_tokens(case, steps, arguments.batch, directory),
            "metrics": [],
            "optimizer": {"kind": "adamw", "learning_rate": 1e-4},
            "train": {"epochs": 1, "batch_size": arguments.batch, "validate_every": 0, "test": False},
            "hooks": [{"hook": "iteration-timer", "config": {"log": False, "warm_up": 0}}, {"hook": "csv"}],
        }
        if case.rank:
            manifest["adapt"] = {"kind": "lora", "rank": case.rank, "alpha": 16, "modules": ["*.c_attn"]}
            manifest["weights"] = {"file": str(arguments.base)}
        (directory / "step.json").write_text(json.dumps(manifest))
        command = [arguments.binary, "run", str(directory / "step.json"), "--quiet"]
        for assignment in arguments.set:
            command += ["--set", assignment]
        _, cpu, memory = run(command, {"XDG_CACHE_HOME": str(directory / "cache")})
        head, row = (line.split(",") for line in (directory / "run/train.csv").read_text().splitlines()[:2])
        profile = json.loads((directory / "run/run.json").read_text())["profile"]["train"]
    parts = {part: 1e3 * profile[part] / steps for part in ("forward", "loss", "backward", "update")}
    return cpu, 1e3 * float(row[head.index("iteration_time/median")]), memory, parts


def ours(case, arguments):
    short, long = 2, 2 + arguments.steps
    before, *_ = run_ours(case, short, arguments)
    cpu, ms, memory, parts = run_ours(case, long, arguments)
    return {"cpu": (cpu - before) / (long - short), "ms": ms, "mb": memory, **parts}


def theirs(name, arguments):
    command = [sys.executable, __file__, "--peer", name, "--threads", str(arguments.threads), "--steps", str(arguments.steps)]
    # Threads that spin while they wait for a core that others have count as work.
    environment = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"} if arguments.busy else {}
    output, _, memory = run([*command, "--batch", str(arguments.batch)], environment)
    return {**json.loads(output.strip().splitlines()[-1]), "mb": memory}


def peer_model(case):
    import torch, transformers

    config = {key: value for key, value in case.config.items() if key != "model_type"}
    config = transformers.AutoConfig.for_model(case.config["model_type"], **config)
    torch.manual_seed(0)
    if case.classes:
        config.num_labels = case.classes
        return transformers.AutoModelForSequenceClassification.from_config(config)
    model = transformers.AutoModelForCausalLM.from_config(config)
    if case.rank:
        import peft

        adapters = peft.LoraConfig(r=case.rank, lora_alpha=16, target_modules=["c_attn"], fan_in_fan_out=True)
        model = peft.get_peft_model(model, adapters)
    return model


def peer(case, arguments):
    """The peer's steps, in this process: prints a JSON line."""
    import torch

    torch.set_num_threads(arguments.threads)
    model = peer_model(case).train()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4)
    times, start = [], None
    for step in range(2 + arguments.steps):
        if step == 2:
            start = os.times()
        began = time.perf_counter()
        tokens = torch.randint(1, case.vocabulary, (arguments.batch, CONTEXT))
        labels = torch.arange(arguments.batch) % case.classes if case.classes else tokens
        loss = model(input_ids=tokens, labels=labels).loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        loss.item()
        times.append(time.perf_counter() - began)
    end = os.times()
    cpu = end.user + end.system - start.user - start.system
    print(json.dumps({"cpu": cpu / arguments.steps, "ms": 1e3 * statistics.median(times[2:])}))


def measure(arguments):
    with tempfile.TemporaryDirectory() as base:
        arguments.base = pathlib.Path(base)
        if "lora" in arguments.cases:
            save = f"import sys; sys.path.insert(0, {str(ROOT / 'tests')!r}); import against_transformers as a; "
            save += f"a.peer_model(a.CASES['gpt2']).save_pretrained({base!r})"
            run([sys.executable, "-c", save])
        for round_ in range(arguments.rounds):
            for name in arguments.cases:
                common = {"case": name, "round": round_, "threads": arguments.threads}
                yield {**common, "who": "ours", **ours(CASES[name], arguments)}
                if not arguments.alone:
                    yield {**common, "who": "peer", **theirs(name, arguments)}


def table(records):
    def median(name, who, key):
        values = [record[key] for record in records if (record["case"], record["who"]) == (name, who)]
        return statistics.median(values) if values else math.nan

    columns = ["case", "ours, CPU s", "peer, CPU s", "ratio", "ours, ms", "peer, ms", "ratio", "bar", "ours, MB", "peer, MB"]
    print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for name, case in CASES.items():
        if not any(record["case"] == name for record in records):
            continue
        line = [name]
        for key, digits in (("cpu", 2), ("ms", 0)):
            own, other = median(name, "ours", key), median(name, "peer", key)
            line += [f"{own:.{digits}f}", f"{other:.{digits}f}", f"**{own / other:.2f}**"]
        line += [f"{case.bar:.2f}", f"{median(name, 'ours', 'mb'):.0f}", f"{median(name, 'peer', 'mb'):.0f}"]
        print("| " + " | ".join(line) + " |")
    for key in ("cpu", "ms"):
        print(f"\nlora over gpt2, ours, {key}: {median('lora', 'ours', key) / median('gpt2', 'ours', key):.2f} (at most 0.66)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=lambda text: text.split(","), default=list(CASES), help="names with commas; default: all")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=8, help="steps that are measured")
    parser.add_argument("--batch", type=int, default=1, help="rows of 256 tokens in a batch")
    parser.add_argument("--binary", default=str(ROOT / "target/release/sconce"))
    parser.add_argument("--set", action="append", default=[], help="an assignment to our manifests, as `sconce run` takes it")
    parser.add_argument("--busy", action="store_true", help="have the peer's threads sleep where they wait: for a machine that others use")
    parser.add_argument("--alone", action="store_true", help="measure ours only")
    parser.add_argument("--record", type=pathlib.Path, help="a file to which measurements are appended")
    parser.add_argument("--table", type=pathlib.Path, help="print the table of such a file, and measure nothing")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        peer(CASES[arguments.peer], arguments)
        return
    if arguments.table:
        table([json.loads(line) for line in arguments.table.read_text().splitlines()])
        return
    unknown = [name for name in arguments.cases if name not in CASES]
    if unknown:
        parser.error(f"unknown cases {unknown}; known: {', '.join(CASES)}")
    records = []
    for record in measure(arguments):
        records.append(record)
        print(json.dumps(record), file=sys.stderr)
        if arguments.record:
            with arguments.record.open("a") as file:
                file.write(json.dumps(record) + "\n")
    table(records)


if __name__ == "__main__":
    main()
