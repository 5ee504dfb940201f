"""Whether `bf16` trains as well as `f32` on a processor: four tasks, each with the same seeds and batches in both precisions, and the ratio of
their last losses, bf16 over f32. The mean over the seeds is what counts: a single seed's ratio is noise of about one percent.

usage: tests/bf16_training.py IMAGES LABELS TEXT [--seeds 1,2,3,4,5] [--tasks mlp,convnet,gpt,resnet] [--binary FILE]
IMAGES, LABELS: MNIST's 10,000 test images, IDX; TEXT: any long text.
"""
import argparse, csv, json, pathlib, statistics, subprocess, tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def conv(channels, stride):
    return [{"kind": "conv2d", "channels": channels, "kernel": 3, "padding": 1, "stride": stride, "bias": False}, {"kind": "batch-norm"}, {"kind": "relu"}]


def tasks(arguments):
    digits = {"kind": "idx", "images": str(arguments.images.resolve()), "labels": str(arguments.labels.resolve()), "val": {"fraction": 0.2}}
    convnet = [*conv(32, 1), *conv(32, 2), *conv(64, 2), {"kind": "flatten"}, {"kind": "linear", "outputs": 10}]
    text = {"kind": "text", "file": str(arguments.text.resolve()), "context": 64, "val": {"fraction": 0.1}}
    generated = {"kind": "synthetic-digits", "train": 4000, "val": 1000, "test": 0, "size": 32}
    return {
        "mlp": ({"kind": "mlp", "hidden": [128, 128]}, digits, {"epochs": 3, "batch_size": 64}),
        "convnet": ({"kind": "sequential", "layers": convnet}, digits, {"epochs": 3, "batch_size": 64}),
        "gpt": ({"kind": "gpt", "width": 96, "layers": 2, "heads": 4}, text, {"epochs": 1, "batch_size": 32}),
        "resnet": ({"kind": "resnet", "width": 16}, generated, {"epochs": 3, "batch_size": 32}),
    }


def last_losses(task, seed, precision, arguments):
    model, data, train = task
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        manifest = {
            "seed": seed, "threads": arguments.threads, "precision": precision, "plugins": [str(pathlib.Path(arguments.binary).resolve().parent)],
            "output": "run", "model": model, "data": data, "optimizer": {"kind": "adamw", "learning_rate": 1e-3},
            "train": {**train, "test": False}, "hooks": ["csv"],
        }
        (place / "run.json").write_text(json.dumps(manifest))
        ended = subprocess.run([arguments.binary, "run", place / "run.json", "--quiet"], capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
        read = lambda phase: list(csv.DictReader((place / f"run/{phase}.csv").open()))[-1]
        return [float(read(phase)["loss"]) for phase in ("train", "val")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("images", "labels", "text"):
        parser.add_argument(name, type=pathlib.Path)
    listed = lambda text: text.split(",")
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in listed(text)], default=[1, 2, 3, 4, 5])
    parser.add_argument("--tasks", type=listed, default=["mlp", "convnet", "gpt", "resnet"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--binary", default=str(ROOT / "target/release/sconce"))
    arguments = parser.parse_args()
    print("| task | seeds | train, mean | val, mean | val, single seeds | f32's val loss |\n|---|---|---|---|---|---|")
    for name in arguments.tasks:
        task = tasks(arguments)[name]
        pairs = [[last_losses(task, seed, precision, arguments) for precision in ("f32", "bf16")] for seed in arguments.seeds]
        of = lambda phase: [100 * (bf16[phase] / f32[phase] - 1) for f32, bf16 in pairs]
        train, val = of(0), of(1)
        loss = statistics.mean(f32[1] for f32, _ in pairs)
        print(f"| {name} | {len(pairs)} | {statistics.mean(train):+.2f} % | {statistics.mean(val):+.2f} % | {min(val):+.2f} to {max(val):+.2f} % | {loss:.4f} |", flush=True)


if __name__ == "__main__":
    main()
