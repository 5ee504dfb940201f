"""JPEGs to batches, and epochs of a small ResNet on them, through manifests, beside PyTorch's DataLoader and torchvision: a table of
docs/performance.md.

usage: against_dataloader.py [--cases load,train] [--images 3000] [--trained 10000] [--rounds 2] [--threads 2] [--binary FILE]
                             [--set train.loader_threads=1] [--alone] [--record FILE]
       against_dataloader.py --table FILE

The images are crops of two photographs, `sklearn.datasets.load_sample_images`, of 320 × 256 pixels and quality 90, about 24 kB each,
in two classes; they become 128 × 128. Ours is a manifest run by the `sconce` binary; the peer reads them by `ImageFolder`, `Resize`,
`ToTensor` and a DataLoader of as many workers as ours has threads, in this script. They run in turn, A B A B …, each in a process of its
own; the table has the medians over the rounds. Python must be one that has torch, torchvision and scikit-learn.

- `load`: an epoch of a linear model, as the difference of two runs of different length: reading, decoding, resizing and batching. Ours
  decodes every image in each epoch (`"memory": "on-demand"`). The peer has no model: it takes the batches and nothing else.
- `train`: a ResNet-18 of width 16 with the large stem. `first` is a whole run of one epoch, from the start of the process to its end; `next`
  is what a second epoch adds. Ours decodes once what is at most 4 GiB as pixels; `--set data.memory=on-demand` has it decode in each epoch.
- *CPU s*: user and system time of the process and its workers: what a busy machine changes least.

Needs `cargo build --release`.
"""
import argparse, json, math, os, pathlib, random, statistics, subprocess, sys, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIZE, BATCH = (128, 128), 64


class Case:
    """What is trained, by runs of two lengths in epochs, and what is counted: the shorter one, and an epoch more."""

    def __init__(self, model, epochs, keys, counted):
        self.model, self.epochs, self.keys, self.counted = model, epochs, keys, counted


RESNET = {"kind": "resnet", "width": 16, "stem": "large"}
PLAIN = {"kind": "mlp", "hidden": []}
CASES = {
    "load": Case(PLAIN, (1, 3), {"memory": "on-demand"}, (None, "load")),
    "train": Case(RESNET, (1, 2), {}, ("first", "next")),
}
LINES = [name for case in CASES.values() for name in case.counted if name]


def write_images(count, directory):
    from PIL import Image
    from sklearn.datasets import load_sample_images

    photographs = [Image.fromarray(image) for image in load_sample_images().images]
    drawn = random.Random(0)
    for index in range(count):
        photograph = photographs[index % 2]
        scale = drawn.uniform(0.6, 1.2)
        width, height = 320 * scale, 256 * scale
        left, top = drawn.uniform(0, photograph.width - width), drawn.uniform(0, photograph.height - height)
        crop = photograph.crop([int(side) for side in (left, top, left + width, top + height)])
        place = directory / ("a", "b")[index % 2]
        place.mkdir(parents=True, exist_ok=True)
        crop.resize((320, 256), Image.BICUBIC).save(place / f"{index:05}.jpg", quality=90)


def run(command, environment):
    """Seconds and CPU seconds of a process with those that it started, and its peak memory in MB."""
    start = time.perf_counter()
    process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{command} failed")
    return {"s": time.perf_counter() - start, "cpu": usage.ru_utime + usage.ru_stime, "mb": usage.ru_maxrss / 1024}


def ours(case, epochs, images, arguments):
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        manifest = {
            "name": "images",
            "output": "run",
            "threads": arguments.threads,
            "model": case.model,
            "data": {"kind": "image-folder", "directory": str(images), "size": SIZE, "normalise": "none", **case.keys},
            "optimizer": {"kind": "adamw", "learning_rate": 1e-3},
            "train": {"epochs": epochs, "batch_size": BATCH, "loader_threads": arguments.threads},
        }
        (directory / "images.json").write_text(json.dumps(manifest))
        command = [arguments.binary, "run", str(directory / "images.json"), "--quiet"]
        for assignment in arguments.set:
            command += ["--set", assignment]
        return run(command, {"XDG_CACHE_HOME": str(directory / "cache")})


def theirs(name, epochs, images, arguments):
    command = [sys.executable, __file__, "--peer", name, "--directory", str(images), "--epochs", str(epochs)]
    return run([*command, "--threads", str(arguments.threads)], {})


def peer_resnet(width):
    from torch import nn

    class Basic(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            convolution = lambda inputs, stride: nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.body = nn.Sequential(convolution(inputs, stride), nn.BatchNorm2d(outputs), nn.ReLU(),
                                      convolution(outputs, 1), nn.BatchNorm2d(outputs))
            short = [nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)] if inputs != outputs else []
            self.short = nn.Sequential(*short)

        def forward(self, x):
            return nn.functional.relu(self.body(x) + self.short(x))

    layers = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = width
    for stage in range(4):
        outputs = width << stage
        layers += [Basic(inputs, outputs, 1 if stage == 0 else 2), Basic(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 2))


def peer(case, arguments):
    """The peer's epochs, in this process."""
    import torch
    from torchvision import datasets, transforms

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    steps = transforms.Compose([transforms.Resize(SIZE), transforms.ToTensor()])
    images = datasets.ImageFolder(arguments.directory, steps)
    batches = torch.utils.data.DataLoader(images, BATCH, shuffle=True, num_workers=arguments.threads, persistent_workers=True)
    model = None if case.model is PLAIN else peer_resnet(RESNET["width"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3) if model else None
    for _ in range(arguments.epochs):
        for inputs, targets in batches:
            if model is None:
                continue
            loss = torch.nn.functional.cross_entropy(model(inputs), targets)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            loss.item()


def counted(side, case):
    """Each line of a case, with its seconds, CPU seconds and MB."""
    of_run, of_epoch = case.counted
    short, long = (side(epochs) for epochs in case.epochs)
    if of_run:
        yield {"line": of_run, **short}
    epochs = case.epochs[1] - case.epochs[0]
    yield {"line": of_epoch, "mb": long["mb"], **{key: (long[key] - short[key]) / epochs for key in ("s", "cpu")}}


def measure(arguments):
    with tempfile.TemporaryDirectory() as base:
        base = pathlib.Path(base)
        counts = {name: arguments.images if name == "load" else arguments.trained for name in arguments.cases}
        for count in set(counts.values()):
            write_images(count, base / str(count))
        for round_ in range(arguments.rounds):
            for name in arguments.cases:
                case, images, count = CASES[name], base / str(counts[name]), counts[name]
                common = {"round": round_, "threads": arguments.threads, "images": count}
                sides = {"ours": lambda epochs: ours(case, epochs, images, arguments)}
                if not arguments.alone:
                    sides["peer"] = lambda epochs: theirs(name, epochs, images, arguments)
                for who, side in sides.items():
                    for found in counted(side, case):
                        yield {**common, "who": who, **found}


def table(records):
    def median(name, who, key):
        values = [key(record) for record in records if (record["line"], record["who"]) == (name, who)]
        return statistics.median(values) if values else math.nan

    keys = {
        "images/s": lambda record: record["images"] / record["s"],
        "s": lambda record: record["s"],
        "CPU s": lambda record: record["cpu"],
        "MB": lambda record: record["mb"],
    }
    columns = [f"{who}, {key}" for key in keys for who in ("ours", "peer")]
    print("| line | " + " | ".join(columns) + " | times as fast | of the CPU s |\n|" + "---|" * (len(columns) + 3))
    for name in LINES:
        if not any(record["line"] == name for record in records):
            continue
        figures = {key: [median(name, who, of) for who in ("ours", "peer")] for key, of in keys.items()}
        digits = {"s": 1, "CPU s": 1}
        line = [f"{value:,.{digits.get(key, 0)}f}" for key, values in figures.items() for value in values]
        ratios = [figures["s"][1] / figures["s"][0], figures["CPU s"][0] / figures["CPU s"][1]]
        print(f"| {name} | " + " | ".join(line) + f" | **{ratios[0]:.2f}** | **{ratios[1]:.2f}** |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=lambda text: text.split(","), default=list(CASES), help="names with commas; default: all")
    parser.add_argument("--images", type=int, default=3000, help="of the case `load`")
    parser.add_argument("--trained", type=int, default=10000, help="of the case `train`")
    parser.add_argument("--threads", type=int, default=2, help="of the model and of the loader, ours and the peer's")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--binary", default=str(ROOT / "target/release/sconce"))
    parser.add_argument("--set", action="append", default=[], help="an assignment to our manifests, as `sconce run` takes it")
    parser.add_argument("--alone", action="store_true", help="measure ours only")
    parser.add_argument("--record", type=pathlib.Path, help="a file to which measurements are appended")
    parser.add_argument("--table", type=pathlib.Path, help="print the table of such a file, and measure nothing")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    parser.add_argument("--directory", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--epochs", type=int, help=argparse.SUPPRESS)
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
        if arguments.record:
            with arguments.record.open("a") as file:
                file.write(json.dumps(record) + "\n")
    table(records)


if __name__ == "__main__":
    main()
