"""Every hook started in every loop: it works, or is refused at the start with its reason.

    python tests/loops/every_hook.py [pytorch] [lightning] [transformers] [mmengine] [keras] [sconce]

Each hook has the least configuration that it needs (`every_hook.json`). One that is refused must be refused for what the table in
docs/any-loop-hooks.md says; all others train, with a validation. Where the table says "yes", none is refused. The table is about any
configuration: one that asks for less may train where it has a reason.
"""
import json
import os
import pathlib
import re
import sys
import tempfile
import warnings

os.environ.setdefault("KERAS_BACKEND", "torch")

import torch

import sconce

HERE = pathlib.Path(__file__).parent
CONFIGURATIONS = json.loads((HERE / "every_hook.json").read_text(encoding="utf-8"))
COLUMNS = {"pytorch": "PyTorch", "lightning": "Lightning", "transformers": "Transformers", "mmengine": "MMEngine", "keras": "Keras", "sconce": "Sconce"}
# Images of two classes, so that hooks that draw or count have something.
SHAPE, CLASSES, SIZE, BATCHES, EPOCHS = (1, 4, 4), ["dark", "light"], 4, 2, 2
PLAN = {"classes": CLASSES, "sample_shape": list(SHAPE)}
PLUGINS = [os.environ["SCONCE_PLUGINS"]] if "SCONCE_PLUGINS" in os.environ else []


class Recorder(sconce.Hook):
    """Stands for `python`, as a hook of this process."""

    asks, reads = [], []

    def after_epoch(self, task):
        pass


def table():
    """The page's table: for each hook, its cell in each column."""
    lines = (HERE.parents[1] / "docs/any-loop-hooks.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("|")]
    names = rows[0]
    return {row[0].strip("` "): dict(zip(names, row)) for row in rows[2:]}


def entries(names):
    """Entries for hooks, each with a directory or file of its own where two would write the same."""
    return [Recorder if name == "python" else {"hook": name, "config": CONFIGURATIONS.get(name, {})} for name in names]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.layers = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))

    def forward(self, inputs):
        return self.layers(inputs)


def samples():
    generator = torch.Generator().manual_seed(3)
    inputs = torch.rand(SIZE * BATCHES, *SHAPE, generator=generator)
    return inputs, (inputs.mean((1, 2, 3)) > 0.5).long()


def loader():
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*samples()), batch_size=SIZE)


def criterion(outputs, targets):
    return torch.nn.functional.cross_entropy(outputs, targets)


def optimizer_of(net):
    return torch.optim.SGD(net.parameters(), 0.1, momentum=0.5)


def in_pytorch(hooks, place):
    net = Net()
    nothing = lambda *_: None
    services = dict.fromkeys(("save", "load", "delete", "copy", "validate"), nothing)
    with sconce.Hooks(
        hooks, model=net, optimizer=optimizer_of(net), output=place, plugins=PLUGINS, epochs=EPOCHS, batches=BATCHES,
        validation_batches=BATCHES, classes=CLASSES, sample_shape=SHAPE, log=nothing, **services,
    ) as host:
        for _ in host.epochs():
            for step in host.training(loader()):
                inputs, targets = step.batch
                step.after_loss(criterion(step.after_forward(net(inputs)), targets)).backward()
                step.update()
            for step in host.validation(loader()):
                inputs, targets = step.batch
                with torch.no_grad():
                    step.after_loss(criterion(step.after_forward(net(inputs)), targets))


def in_lightning(hooks, place):
    import lightning.pytorch as pl

    from sconce.lightning import Callback

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = Net()

        def training_step(self, batch, _):
            return criterion(self.net(batch[0]), batch[1])

        validation_step = training_step

        def configure_optimizers(self):
            return optimizer_of(self)

    callback = Callback(hooks, output=place, plugins=PLUGINS, log=lambda *_: None, plan=PLAN)
    pl.Trainer(
        max_epochs=EPOCHS, callbacks=[callback], default_root_dir=place, logger=False, enable_progress_bar=False,
        enable_model_summary=False, enable_checkpointing=False, accelerator="cpu", num_sanity_val_steps=0,
    ).fit(Module(), loader(), loader())


def in_transformers(hooks, place):
    import transformers

    from sconce.transformers import Callback

    transformers.logging.set_verbosity_error()

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = Net()

        def forward(self, inputs=None, labels=None):
            logits = self.net(inputs)
            return {"loss": criterion(logits, labels), "logits": logits}

    data = [{"inputs": one, "labels": label} for one, label in zip(*samples())]
    arguments = transformers.TrainingArguments(
        output_dir=str(place / "own"), num_train_epochs=EPOCHS, per_device_train_batch_size=SIZE, per_device_eval_batch_size=SIZE,
        lr_scheduler_type="constant", optim="sgd", optim_args="momentum=0.5", max_grad_norm=0.0, eval_strategy="epoch", save_strategy="no",
        report_to=[], use_cpu=True, disable_tqdm=True, remove_unused_columns=False,
    )
    callback = Callback(hooks, output=place, plugins=PLUGINS, log=lambda *_: None, plan=PLAN)
    transformers.Trainer(Model(), arguments, train_dataset=data, eval_dataset=data, callbacks=[callback]).train()


def in_mmengine(hooks, place):
    import mmengine

    from sconce.mmengine import Hook

    class Model(mmengine.model.BaseModel):
        def __init__(self):
            super().__init__()
            self.net = Net()

        def forward(self, inputs, targets, mode):
            outputs = self.net(inputs)
            return {"loss": criterion(outputs, targets)} if mode == "loss" else (outputs, targets)

    class Nothing(mmengine.evaluator.BaseMetric):
        def process(self, _, outputs):
            self.results.append(0)

        def compute_metrics(self, results):
            return {"accuracy": 0.5}

    mmengine.runner.Runner(
        model=Model(), work_dir=str(place / "own"), train_dataloader=loader(), val_dataloader=loader(), val_evaluator=[Nothing()],
        optim_wrapper={"optimizer": {"type": "SGD", "lr": 0.1, "momentum": 0.5}},
        train_cfg={"by_epoch": True, "max_epochs": EPOCHS, "val_interval": 1}, val_cfg={},
        default_hooks={"logger": None, "checkpoint": None, "timer": None},
        custom_hooks=[Hook(hooks, output=place, plugins=PLUGINS, log=lambda *_: None, plan=PLAN)],
        experiment_name=place.name, log_level="ERROR",
    ).train()


def in_keras(hooks, place):
    import keras

    from sconce.keras import Callback

    model = keras.Sequential([keras.Input(SHAPE), keras.layers.Flatten(), keras.layers.Dense(8, activation="relu", name="dense_1"), keras.layers.Dense(2, name="dense_2")])
    model.compile(keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    inputs, targets = samples()
    callback = Callback(hooks, output=place, plugins=PLUGINS, log=lambda *_: None, plan=PLAN)
    try:
        model.fit(inputs, targets, batch_size=SIZE, epochs=EPOCHS, verbose=0, validation_data=(inputs, targets), callbacks=[callback])
    except BaseException as error:
        callback.fail(error)
        raise


def in_sconce(hooks, place):
    inputs, targets = samples()
    manifest = {
        "seed": 1, "model": {"kind": "mlp", "hidden": [8]}, "data": {"val": {"fraction": 0.5}},
        "optimizer": {"kind": "sgd", "learning_rate": 0.1, "momentum": 0.5}, "train": {"epochs": EPOCHS, "batch_size": SIZE // 2},
        "plugins": PLUGINS,
    }
    sconce.train(manifest, data=(inputs.numpy(), targets.numpy()), hooks=hooks, output=place, progress=False)


LOOPS = {"sconce": in_sconce, "pytorch": in_pytorch, "lightning": in_lightning, "transformers": in_transformers, "mmengine": in_mmengine, "keras": in_keras}


def refusals(error):
    """Names and reasons of the hooks that an error says can't run."""
    found = dict(re.findall(r"the hook `([^`]+)` can't run in this loop: (.*)", str(error)))
    # One that is created before it is compared with the loop may say so itself.
    return found or dict(re.findall(r"hook `([^`]+)` failed when it was created: (.*)", str(error)))


def check(loop, place):
    column, train = COLUMNS[loop], LOOPS[loop]
    expected = {name: row[column] for name, row in table().items()}
    refused = {}
    for attempt in range(4):
        works = [name for name in expected if name not in refused]
        try:
            train(entries(works), place / str(attempt))
            break
        except sconce.PluginError as error:
            found = refusals(error)
            if not found:
                raise
            refused |= {"python" if name == "Recorder" else name: reason for name, reason in found.items()}
    else:
        raise AssertionError(f"{column} refuses in {attempt + 1} attempts: {refused}")
    for name, reason in refused.items():
        assert expected[name] != "yes", f"{name} in {column}: {reason}"
        for one in reason.split("; "):
            named = re.findall(r"`([^`]+)`", one)
            is_of_loop = one.startswith(("it is called at", "it may ask", "it reads"))
            assert not is_of_loop or any(f"`{what}`" in expected[name] for what in named), f"{name}, {column}: {one}; {expected[name]}"
    print(f"ok: {loop}: {len(works)} hooks train, {len(refused)} are refused with their reasons")


def main(names=()):
    warnings.simplefilter("ignore")
    for loop in names or LOOPS:
        with tempfile.TemporaryDirectory() as place:
            check(loop, pathlib.Path(place))


if __name__ == "__main__":
    main(sys.argv[1:])
