"""Models of every kind as ONNX and as a module of PyTorch: ONNX Runtime and PyTorch give what `sconce predict` gives, for one sample and
for many, for short and long sequences; what is trained here can be trained further there. Run it with a Python that has numpy, onnxruntime,
torch and safetensors.

usage: tests/onnx.py [SCONCE]    default: target/release/sconce
"""
import gzip, importlib.util, json, os, struct, subprocess, sys, tempfile
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from safetensors import safe_open

SCONCE = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "target/release/sconce")
numbers = np.random.default_rng(5)


def sconce(*arguments):
    run = subprocess.run([SCONCE, *map(str, arguments)], capture_output=True, text=True)
    assert run.returncode == 0, f"{arguments}: {run.stdout}{run.stderr}"
    return run.stdout


def manifest(place, data, model, **more):
    optimizer = {"kind": "adamw", "learning_rate": 0.01}
    train = {"epochs": 1, "batch_size": 8}
    run = {"seed": 3, "data": data, "model": model, "optimizer": optimizer, "train": train, "threads": 1, "output": str(place / "run")}
    (place / "run.json").write_text(json.dumps(run | more))
    sconce("run", place / "run.json")
    return Exported(place)


class Exported:
    """A run's model as a session of ONNX Runtime and a module of PyTorch, which give the same."""

    def __init__(self, place):
        sconce("export", place / "run", "--output", place / "model.onnx")
        self.session = onnxruntime.InferenceSession(place / "model.onnx", providers=["CPUExecutionProvider"])
        sconce("export", place / "run", "--format", "pytorch", "--output", place / "torch")
        spec = importlib.util.spec_from_file_location("exported_model", place / "torch/model.py")
        self.python = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.python)
        self.module = self.python.Model.load()
        self.is_table = "columns" in self.module.forward.__code__.co_varnames
        with safe_open(place / "torch/model.safetensors", "np") as file:
            assert set(file.keys()) == set(self.module.state_dict())
        with safe_open(place / "run/weights.safetensors", "np") as file:
            counts = {name for name in file.keys() if name.endswith(".num_batches_tracked")}
            assert set(file.keys()) - counts <= set(self.module.state_dict()), set(file.keys()) - set(self.module.state_dict())

    def metadata(self):
        return self.session.get_modelmeta().custom_metadata_map

    def run(self, output, inputs):
        found = self.session.run([output], inputs)[0]
        if self.is_table:
            result = self.module({name: x[:, 0] for name, x in inputs.items()})
        else:
            result = self.module(*[torch.from_numpy(x) for x in inputs.values()])
        result.sum().backward()
        for name, parameter in self.module.named_parameters():
            assert parameter.grad is not None, name
        if output == "probabilities":
            result = result.softmax(-1)
        difference = np.abs(found - result.detach().numpy()).max()
        assert difference < 1e-5 * max(1.0, np.abs(found).max()), difference
        return found


def predicted(place, file):
    return [json.loads(line) for line in sconce("predict", place / "run", "--input", file).splitlines()]


def compare(what, exported, inputs, expected, output):
    """For all samples at once, and for the second alone: a size that was kept as a constant would show."""
    for part in (slice(None), slice(1, 2)):
        found = exported.run(output, {name: x[part] for name, x in inputs.items()})
        wanted = np.asarray(expected)[part]
        bound = 1e-5 * max(1.0, np.abs(wanted).max())
        assert found.shape == wanted.shape, (what, found.shape, wanted.shape)
        assert np.abs(found - wanted).max() < bound, (what, np.abs(found - wanted).max())
    print(f"ok: {what}", flush=True)


def idx(path, array):
    path.write_bytes(struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes())


def images(what, model, shape=(1, 12, 12)):
    with tempfile.TemporaryDirectory() as place:
        place = Path(place)
        size = (40, *shape) if shape[0] > 1 else (40, *shape[1:])
        pixels, labels = numbers.integers(0, 256, size, dtype=np.uint8), (np.arange(40) % 3).astype(np.uint8)
        idx(place / "images", pixels)
        idx(place / "labels", labels)
        exported = manifest(place, {"kind": "idx", "images": "images", "labels": "labels", "val": {"count": 8}}, model)
        answers = predicted(place, place / "images")
        classes = json.loads(exported.metadata()["classes"])
        expected = [[answer["probabilities"][name] for name in classes] for answer in answers]
        compare(what, exported, {"image": pixels.reshape(40, *shape)}, expected, "probabilities")


def table(what, columns, target, model, **options):
    with tempfile.TemporaryDirectory() as place:
        place = Path(place)
        names, rows = list(columns), len(target)
        text = lambda x: "" if x is None else str(x)
        lines = [",".join([*names, "y"])] + [",".join(text(columns[name][row]) for name in names) + f",{target[row]}" for row in range(rows)]
        (place / "table.csv").write_text("\n".join(lines) + "\n")
        exported = manifest(place, {"kind": "csv", "file": "table.csv", "target": "y", "val": {"count": 8}, **options}, model)
        answers = predicted(place, place / "table.csv")
        meta = exported.metadata()
        if "classes" in meta:
            classes, output = json.loads(meta["classes"]), "probabilities"
            expected = [[answer["probabilities"][name] for name in classes] for answer in answers]
        else:
            output, expected = "output", [list(answer["prediction"].values()) for answer in answers]
        kinds = {x.name: x.type for x in exported.session.get_inputs()}
        column = lambda name: (np.array([[np.nan if x is None else x] for x in columns[name]], dtype=np.float64) if kinds[name] == "tensor(double)"
                               else np.array([["" if x is None else x] for x in columns[name]], dtype=object))
        compare(what, exported, {name: column(name) for name in names}, expected, output)


def arrays(what, x, y, model):
    with tempfile.TemporaryDirectory() as place:
        place = Path(place)
        np.save(place / "x.npy", x)
        np.save(place / "y.npy", y)
        data = {"kind": "npy", "inputs": "x.npy", "targets": "y.npy", "standardise": True, "val": {"count": 8}}
        exported = manifest(place, data, model)
        expected = [list(answer["prediction"].values()) for answer in predicted(place, place / "x.npy")]
        compare(what, exported, {"input": x}, expected, "output")


def text(what, model):
    with tempfile.TemporaryDirectory() as place:
        place = Path(place)
        words = "the quick brown fox jumps over the lazy dog, and the dog sleeps on. " * 8
        (place / "text.txt").write_text(words)
        exported = manifest(place, {"kind": "text", "file": "text.txt", "context": 16, "val": {"fraction": 0.2}}, model)
        answers = predicted(place, place / "text.txt")
        tokens = np.frombuffer(words.encode(), np.uint8).astype(np.int64)
        whole = [answer for answer in answers if len(answer["probabilities"]) == 16]
        windows = np.stack([tokens[16 * i : 16 * i + 16] for i in range(len(whole))])
        expected = [answer["probabilities"] for answer in whole]
        for length in (16, 5):
            found = exported.run("probabilities", {"tokens": windows[:, :length]}).max(axis=-1)
            # The likeliest class's probability; nothing after a position changes it.
            assert np.abs(found - np.array(expected)[:, :length]).max() < 1e-5, (what, length)
        print(f"ok: {what}", flush=True)


numeric = [float(x) if i % 7 else None for i, x in enumerate(numbers.normal(1990.0, 12.0, 60).round(3))]
plain = [float(x) for x in numbers.normal(size=60).round(3)]
kinds = [["red", "green", "blue", None, "teal"][int(x)] for x in numbers.integers(0, 5, 60)]
classes = ["ab"[i % 2] + "cd"[i % 3 == 0] for i in range(60)]
values = [round(float(x), 4) for x in numbers.uniform(1.0, 90.0, 60)]
mlp = {"kind": "mlp", "hidden": [8]}
table("a table with missing numbers and categories", {"year": numeric, "x": plain, "kind": kinds}, classes, mlp)
table("a table with unknown categories, embedded", {"x": plain, "kind": kinds}, classes,
      {"kind": "sequential", "layers": [{"kind": "embed-categories"}, {"kind": "linear", "outputs": 6}, {"kind": "gelu"}, {"kind": "linear"}]},
      embed=["kind"], on_unknown="own")
table("scaled targets", {"x": plain, "year": numeric}, values, mlp, target_kind="numbers", target_scaling="log")
images("convnet", {"kind": "convnet"}, shape=(1, 28, 28))
images("resnet", {"kind": "resnet", "width": 4, "blocks": [1, 1]}, shape=(1, 16, 16))
images("vit", {"kind": "vit", "patch": 4, "width": 16, "heads": 2, "layers": 1})
images("every pooling and norm of images", {"kind": "sequential", "layers": [
    {"kind": "conv2d", "channels": 4, "kernel": [3, 2], "stride": [1, 2], "padding": [1, 0]}, {"kind": "batch-norm"}, {"kind": "silu"},
    {"kind": "max-pool2d", "kernel": 3, "stride": 1, "padding": 1}, {"kind": "avg-pool2d", "kernel": 2, "stride": 1, "padding": 1},
    {"kind": "residual", "layers": [{"kind": "conv2d", "channels": 4, "kernel": 3, "padding": 2, "dilation": 2, "groups": 2}], "activation": "tanh"},
    {"kind": "adaptive-max-pool2d", "size": [5, 4]}, {"kind": "adaptive-avg-pool2d", "size": [3, 3]}, {"kind": "sigmoid"},
    {"kind": "flatten"}, {"kind": "reshape", "shape": [4, 9]}, {"kind": "layer-norm"}, {"kind": "rms-norm"}, {"kind": "unit-norm"}, {"kind": "dropout"},
    {"kind": "mean-positions"}, {"kind": "linear"}]})
arrays("sequences of numbers", numbers.normal(size=(40, 3, 10)).astype(np.float32), numbers.normal(size=(40, 2)).astype(np.float32),
       {"kind": "sequential", "layers": [{"kind": "conv1d", "channels": 4, "kernel": 3, "padding": 1, "stride": 2}, {"kind": "relu"},
                                         {"kind": "positions"}, {"kind": "mean-positions"}, {"kind": "linear"}]})
text("gpt", {"kind": "gpt", "width": 16, "layers": 2, "heads": 2})
text("gpt with rotary positions and RMS norms", {"kind": "gpt", "width": 16, "layers": 1, "heads": 2, "positions": "rotary", "norm": "rms", "bias": False})
images("positions, branches and groups", {"kind": "sequential", "layers": [
    {"kind": "conv2d", "channels": 8, "kernel": 4, "stride": 4}, {"kind": "group-norm", "groups": 2}, {"kind": "gelu-tanh"},
    {"kind": "parallel", "combine": "multiply", "branches": [[], [{"kind": "adaptive-avg-pool2d"}, {"kind": "flatten"}, {"kind": "linear", "outputs": 8}, {"kind": "sigmoid"}]]},
    {"kind": "positions"}, {"kind": "class-token"}, {"kind": "position-embedding"},
    {"kind": "attention", "heads": 4, "kv_heads": 2, "head_width": 6, "query_norm": {}, "bias": {"query": False}, "transposed": True,
     "projections": {"query": "q", "key": "k", "value": "v", "output": "o"}},
    {"kind": "parallel", "combine": "concatenate", "axis": 1, "branches": [[{"kind": "quick-gelu"}], [{"kind": "linear", "outputs": 3}]]},
    {"kind": "scale"}, {"kind": "drop-path", "share": 0.1}, {"kind": "transpose"}, {"kind": "transpose"}, {"kind": "select", "at": 0}, {"kind": "linear"}]})
text("windows, grouped keys, scaled angles and a tied head", {"kind": "sequential", "layers": [
    {"kind": "embedding", "name": "tokens", "width": 16},
    {"kind": "repeat", "name": "h", "count": 2, "layers": [{"kind": "residual", "layers": [{"kind": "rms-norm"},
     {"kind": "attention", "heads": 4, "kv_heads": 1, "causal": True, "window": 3, "rotary": {"share": 0.5, "scaling": {"kind": "linear", "factor": 2}}}]}]},
    {"kind": "linear", "tied": "tokens", "bias": False}]})
arrays("recurrent networks", numbers.normal(size=(40, 6, 5)).astype(np.float32), numbers.normal(size=(40, 2)).astype(np.float32),
       {"kind": "sequential", "layers": [{"kind": "lstm", "hidden": 7, "layers": 2, "bidirectional": True}, {"kind": "gru", "hidden": 5},
                                         {"kind": "select", "at": "last"}, {"kind": "linear"}]})
images("larger images", {"kind": "sequential", "layers": [
    {"kind": "conv2d", "channels": 4, "kernel": 3, "stride": 2}, {"kind": "conv-transpose2d", "channels": 6, "kernel": 3, "stride": 2, "padding": 1, "groups": 2},
    {"kind": "upsample", "factor": 2, "mode": "bilinear"}, {"kind": "upsample", "factor": [1, 2]}, {"kind": "adaptive-avg-pool2d"}, {"kind": "flatten"}, {"kind": "linear"}]})
