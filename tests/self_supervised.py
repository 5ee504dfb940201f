"""What features are worth that were learnt without labels: 9,000 of MNIST's digits, one network, for each method of the plugin
`self-supervised`, beside the same method of `lightly` (PyTorch) on the same images, with views drawn the same way. A linear classifier
(scikit-learn's LogisticRegression on standardised features) is fitted to the 64 features of the training images, and to 100 of them, and
tested on 1,000 others. `random` is the untrained network.

usage: tests/self_supervised.py IMAGES LABELS [--methods simclr,...] [--epochs N] [--seeds 1,2] [--alone]
IMAGES, LABELS: MNIST's 10,000 test images, gzipped or not. Needs numpy and scikit-learn; torch, torchvision and lightly unless --alone.
"""
import argparse, gzip, json, shutil, struct, subprocess, sys, tempfile, time
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

ROOT = Path(__file__).resolve().parent.parent
TRAIN, WIDTH, BATCH = 9000, 64, 256
HOOKS = {
    "simclr": {"temperature": 0.2},
    "barlow-twins": {},
    "vicreg": {},
    "moco": {"queue": 4096, "momentum": 0.99, "temperature": 0.2},
    "byol": {"projector": "projector", "momentum": 0.99},
    "dino": {"momentum": 0.99},
    "swav": {"prototypes": "prototypes"},
    "deep-cluster": {"prototypes": "prototypes", "embeddings": "directions"},
}
OUTPUTS = {"dino": 256}
CLUSTERED, PROTOTYPES = ("swav", "deep-cluster"), 100
# What lightly has no loss for.
OURS_ALONE = ("random", "deep-cluster")


def layers(method):
    """Three convolutions, their mean, a projector, and for BYOL a predictor."""
    conv = lambda channels, stride: [{"kind": "conv2d", "channels": channels, "kernel": 3, "padding": 1, "stride": stride, "bias": False},
                                     {"kind": "batch-norm"}, {"kind": "relu"}]
    head = lambda name, outputs: {"kind": "sequential", "name": name, "layers": [
        {"kind": "linear", "outputs": 128}, {"kind": "batch-norm"}, {"kind": "relu"}, {"kind": "linear", "outputs": outputs}]}
    body = [*conv(16, 1), *conv(32, 2), *conv(WIDTH, 2), {"kind": "adaptive-avg-pool2d"}, {"kind": "flatten", "name": "features"}]
    prototypes = [{"kind": "unit-norm", "name": "directions"}, {"kind": "linear", "name": "prototypes", "outputs": PROTOTYPES, "bias": False}]
    ends = {"byol": [head("predictor", 64)]} | {name: prototypes for name in CLUSTERED}
    return body + [head("projector", OUTPUTS.get(method, 64))] + ends.get(method, [])


def read(file):
    bytes_ = Path(file).read_bytes()
    return gzip.decompress(bytes_) if bytes_[:2] == b"\x1f\x8b" else bytes_


def idx(file, array):
    file.write_bytes(struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes())


def probe(features, labels):
    """Accuracies in percent: of a classifier of all training samples, and of one of the first 100."""
    found = []
    for count in (TRAIN, 100):
        x, y = features[:count], labels[:count]
        mean, deviation = x.mean(0), x.std(0) + 1e-6
        model = LogisticRegression(C=1.0, max_iter=2000).fit((x - mean) / deviation, y)
        found.append(100 * model.score((features[TRAIN:] - mean) / deviation, labels[TRAIN:]))
    return found


def ours(method, seed, arguments, place):
    binary = Path(arguments.binary).resolve()
    hooks = [] if method == "random" else [{"hook": method, "config": HOOKS[method]}, {"hook": "iteration-timer", "config": {"log": False}}, "csv"]
    epochs = 1 if method == "random" else arguments.epochs
    manifest = {
        "seed": seed, "threads": arguments.threads, "plugins": [str(binary.parent)], "output": "run", "loss": "given", "hooks": hooks,
        "model": {"kind": "sequential", "layers": layers(method)},
        "data": {"kind": "idx", "images": "images", "labels": "labels", "targets": "none", "test": {"images": "test-images", "labels": "test-labels"},
                 "views": [{"count": 2, "crop": {"scale": [0.3, 1.0]}, "blur": {}}]},
        "optimizer": {"kind": "adamw", "learning_rate": 1e-3, "weight_decay": 1e-4},
        "train": {"epochs": epochs, "batch_size": BATCH, "validate_every": 0, "test": False},
    }
    if method == "random":
        manifest["hooks"], manifest["optimizer"]["learning_rate"] = [{"hook": "simclr", "config": {}}], 1e-12
    (place / "run.json").write_text(json.dumps(manifest))

    def run(*words):
        ended = subprocess.run([binary, *map(str, words)], cwd=place, capture_output=True, text=True)
        assert ended.returncode == 0, f"{words}: {ended.stderr}"

    shutil.rmtree(place / "run", ignore_errors=True)
    run("run", "run.json", "--quiet")
    parts = []
    for phase in ("train", "test"):
        run("predict", "run", "--phase", phase, "--module", "features", "--format", "npy", "--output", f"{phase}.npy")
        parts.append(np.load(place / f"{phase}.npy").reshape(-1, WIDTH))
    ms = None
    if method != "random":
        head, *rows = (line.split(",") for line in (place / "run/train.csv").read_text().splitlines())
        ms = 1e3 * float(rows[-1][head.index("iteration_time/median")])
    return np.concatenate(parts), ms


def theirs(method, seed, images, arguments):
    import copy, torch, torchvision
    from lightly.loss import BarlowTwinsLoss, DINOLoss, NegativeCosineSimilarity, NTXentLoss, SwaVLoss, VICRegLoss
    from lightly.models.utils import update_momentum
    from torch import nn

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(seed)
    conv = lambda i, o, s: [nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU()]
    head = lambda i, o: nn.Sequential(nn.Linear(i, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, o))
    body = nn.Sequential(*conv(1, 16, 1), *conv(16, 32, 2), *conv(32, WIDTH, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    student = nn.Sequential(body, head(WIDTH, OUTPUTS.get(method, 64)))
    predictor = head(64, 64) if method == "byol" else nn.Linear(64, PROTOTYPES, bias=False) if method == "swav" else nn.Identity()
    teacher = copy.deepcopy(student).requires_grad_(False)
    kinds = {
        "simclr": lambda: NTXentLoss(temperature=0.2), "barlow-twins": lambda: BarlowTwinsLoss(lambda_param=5e-3), "vicreg": VICRegLoss,
        "moco": lambda: NTXentLoss(temperature=0.2, memory_bank_size=(4096, 64)), "byol": NegativeCosineSimilarity,
        "swav": SwaVLoss,
        "dino": lambda: DINOLoss(output_dim=OUTPUTS["dino"], warmup_teacher_temp_epochs=0),
    }
    loss = kinds[method]()
    data = torch.from_numpy(images[:TRAIN].astype(np.float32))[:, None]
    mean, deviation = data.mean(), data.std()
    draw = torchvision.transforms.Compose([torchvision.transforms.RandomResizedCrop(28, scale=(0.3, 1.0), antialias=True),
                                           torchvision.transforms.RandomApply([torchvision.transforms.GaussianBlur(5, (0.1, 2.0))], 0.5)])
    optimizer = torch.optim.AdamW([*student.parameters(), *predictor.parameters()], lr=1e-3, weight_decay=1e-4)
    times = []
    for epoch in range(arguments.epochs):
        for indices in torch.randperm(TRAIN).split(BATCH):
            views = [torch.stack([draw(x) for x in data[indices]]) for _ in range(2)]
            views = [(view - mean) / deviation for view in views]
            began = time.perf_counter()
            outputs = [student(view) for view in views]
            if method == "moco":
                with torch.no_grad():
                    keys = [teacher(view) for view in views]
                value = 0.5 * (loss(outputs[0], keys[1]) + loss(outputs[1], keys[0]))
            elif method == "byol":
                with torch.no_grad():
                    keys = [teacher(view) for view in views]
                value = 0.5 * (loss(predictor(outputs[0]), keys[1]) + loss(predictor(outputs[1]), keys[0]))
            elif method == "swav":
                with torch.no_grad():
                    predictor.weight.copy_(nn.functional.normalize(predictor.weight))
                value = loss([predictor(nn.functional.normalize(output)) for output in outputs], [])
            elif method == "dino":
                with torch.no_grad():
                    keys = [teacher(view) for view in views]
                value = loss(keys, outputs, epoch=epoch)
            else:
                value = loss(*outputs)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            if method in ("moco", "byol", "dino"):
                update_momentum(student, teacher, m=0.99)
            times.append(time.perf_counter() - began)
    body.eval()
    every = (torch.from_numpy(images.astype(np.float32))[:, None] - mean) / deviation
    with torch.no_grad():
        return torch.cat([body(part) for part in every.split(1000)]).numpy(), 1e3 * float(np.median(times))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images"), parser.add_argument("labels")
    parser.add_argument("--methods", type=lambda text: text.split(","), default=list(HOOKS))
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in text.split(",")], default=[1])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--binary", default=str(ROOT / "target/release/sconce"))
    parser.add_argument("--alone", action="store_true", help="without lightly")
    arguments = parser.parse_args()
    pixels, labels = read(arguments.images), np.frombuffer(read(arguments.labels), np.uint8, offset=8)
    images = np.frombuffer(pixels, np.uint8, offset=16).reshape(-1, 28, 28)
    print("| method | who | seed | all labels, % | 100 labels, % | step, ms |\n|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as place:
        place = Path(place)
        for name, part in (("", slice(None, TRAIN)), ("test-", slice(TRAIN, None))):
            idx(place / f"{name}images", images[part])
            idx(place / f"{name}labels", labels[part])
        for seed in arguments.seeds:
            for method in ["random", *arguments.methods]:
                for who in ["sconce"] if arguments.alone or method in OURS_ALONE else ["sconce", "lightly"]:
                    features, ms = ours(method, seed, arguments, place) if who == "sconce" else theirs(method, seed, images, arguments)
                    every, few = probe(features, labels)
                    print(f"| {method} | {who} | {seed} | {every:.1f} | {few:.1f} | {f'{ms:.1f}' if ms else ''} |", flush=True)


if __name__ == "__main__":
    main()
