"""The same plugin files in Lightning, Transformers' Trainer, MMEngine and Keras: what hooks write against what a loop computes; and a run
that was killed in the middle of an epoch and resumed by the framework's own checkpoint against one that was not.

    python tests/loops/frameworks.py [lightning] [transformers] [mmengine] [keras]     with those installed; all by default
"""
import csv
import logging
import os
import pathlib
import shutil
import sys
import tempfile
import warnings

os.environ.setdefault("KERAS_BACKEND", "torch")

import torch

import killed
import sconce

PLUGINS = [os.environ["SCONCE_PLUGINS"]] if "SCONCE_PLUGINS" in os.environ else []
EPOCHS, BATCHES, SIZE = 3, 5, 8
HOOKS = [
    "csv",
    {"hook": "ema", "config": {"decay": 0.9, "warm_up": "none"}},
    {"hook": "grad-clip", "config": {"max_norm": 0.5}},
    "anomaly",
    "report",
    {"hook": "jsonl", "config": {"interval": 1}},
]
if any(pathlib.Path(place, "libclip.so").exists() for place in PLUGINS):
    # The example in C, which clips what the one in Rust has left.
    HOOKS[2]["config"]["max_norm"] = 0.7
    HOOKS.append({"hook": "clip", "config": {"max_norm": 0.5}})


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.layers = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))

    def forward(self, inputs):
        if self.training:
            killed.passed()
        return self.layers(inputs)


def samples(seed=0):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(BATCHES * SIZE, 6, generator=generator)
    return inputs, (inputs.sum(1) > 0).long()


def dataset(seed=0):
    return torch.utils.data.TensorDataset(*samples(seed))


def loader(seed=0):
    return torch.utils.data.DataLoader(dataset(seed), batch_size=SIZE)


def expected():
    """The losses of the epochs, and the parameters, of a loop of PyTorch's own with the same clipping."""
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    losses = []
    for _ in range(EPOCHS):
        total = 0.0
        for inputs, targets in loader():
            loss = torch.nn.functional.cross_entropy(net(inputs), targets)
            total += loss.item()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            optimizer.step()
        losses.append(total / BATCHES)
    return losses, [parameter.detach().clone() for parameter in net.parameters()]


def check_whole(place, net):
    """Compares what a framework's run has left with the loop above."""
    losses, parameters = expected()
    found = [float(row["loss"]) for row in rows(place)]
    assert len(found) == EPOCHS, found
    assert all(abs(one - other) < 1e-6 for one, other in zip(found, losses)), (found, losses)
    for one, other in zip(net.parameters(), parameters):
        assert torch.allclose(one, other, rtol=1e-5, atol=1e-6), (one - other).abs().max()
    assert (pathlib.Path(place) / "report.html").stat().st_size > 1000


def rows(place):
    with open(pathlib.Path(place) / "train.csv", newline="") as file:
        return list(csv.DictReader(file))


def refused(make, word):
    """Whether hooks that can't run there are refused by name."""
    try:
        make()
    except sconce.Error as error:
        assert word in str(error), error
        return
    raise AssertionError(f"`{word}` must be refused")


# Each of these returns `train(directory, hooks, resume)`, which trains as `expected` does, with a checkpoint of the framework's own within
# the training, and returns the net; and what is refused.


def in_lightning():
    import lightning.pytorch as pl

    from sconce.lightning import Callback

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = Net()

        def training_step(self, batch, _):
            return torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def validation_step(self, batch, _):
            loss = torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])
            self.log("val_loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    def train(directory, hooks=HOOKS, resume=False):
        module = Module()
        trainer = pl.Trainer(
            max_epochs=EPOCHS,
            callbacks=[
                Callback(hooks, output=directory / "hooks", plugins=PLUGINS),
                pl.callbacks.ModelCheckpoint(dirpath=directory, filename="kept", enable_version_counter=False),
            ],
            default_root_dir=directory,
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            accelerator="cpu",
        )
        trainer.fit(module, loader(), loader(1), ckpt_path=directory / "kept.ckpt" if resume else None)
        return module.net

    return train, (["gradient-flow", "precise-batchnorm"], "precise-batchnorm")


def in_transformers():
    import transformers

    from sconce.transformers import Callback

    transformers.logging.set_verbosity_error()

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = Net()

        def forward(self, inputs=None, labels=None):
            logits = self.net(inputs)
            return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}

    class Data(torch.utils.data.Dataset):
        def __init__(self, seed):
            self.inputs, self.labels = samples(seed)

        def __len__(self):
            return len(self.inputs)

        def __getitem__(self, index):
            return {"inputs": self.inputs[index], "labels": self.labels[index]}

    class Trainer(transformers.Trainer):
        def _get_train_sampler(self, *_):
            return torch.utils.data.SequentialSampler(self.train_dataset)

    def train(directory, hooks=HOOKS, resume=False):
        model = Model()
        arguments = transformers.TrainingArguments(
            output_dir=str(directory),
            num_train_epochs=EPOCHS,
            per_device_train_batch_size=SIZE,
            per_device_eval_batch_size=SIZE,
            learning_rate=0.1,
            lr_scheduler_type="constant",
            optim="sgd",
            max_grad_norm=0.0,
            eval_strategy="epoch",
            # Not the end of an epoch: 5 batches are one.
            save_strategy="steps",
            save_steps=3,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            remove_unused_columns=False,
        )
        callback = Callback(hooks, output=directory / "hooks", plugins=PLUGINS)
        trainer = Trainer(model, arguments, train_dataset=Data(0), eval_dataset=Data(1), callbacks=[callback])
        trainer.train(resume_from_checkpoint=resume)
        return model.net

    return train, (["checkpoint"], "checkpoint")


def in_mmengine():
    import mmengine

    # What MMEngine reads back is its own, which PyTorch no longer takes for granted.
    os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"

    from sconce.mmengine import Hook

    class Model(mmengine.model.BaseModel):
        def __init__(self):
            super().__init__()
            self.net = Net()

        def forward(self, inputs, targets, mode):
            outputs = self.net(inputs)
            if mode == "loss":
                return {"loss": torch.nn.functional.cross_entropy(outputs, targets)}
            return outputs, targets

    class Accuracy(mmengine.evaluator.BaseMetric):
        def process(self, _, outputs):
            scores, targets = outputs
            self.results.append((int((scores.argmax(1) == targets).sum()), len(targets)))

        def compute_metrics(self, results):
            return {"accuracy": sum(one for one, _ in results) / sum(count for _, count in results)}

    runs = iter(range(100))

    def train(directory, hooks=HOOKS, resume=False):
        runner = mmengine.runner.Runner(
            model=Model(),
            work_dir=str(directory),
            train_dataloader=loader(),
            val_dataloader=loader(1),
            val_evaluator=[Accuracy()],
            optim_wrapper={"optimizer": {"type": "SGD", "lr": 0.1}},
            train_cfg={"by_epoch": True, "max_epochs": EPOCHS, "val_interval": 1},
            val_cfg={},
            default_hooks={"logger": None, "checkpoint": {"type": "CheckpointHook", "interval": 1}, "timer": None},
            custom_hooks=[Hook(hooks, output=directory / "hooks", plugins=PLUGINS)],
            experiment_name=f"{directory.name}{next(runs)}",
            log_level="ERROR",
            resume=resume,
        )
        runner.train()
        return runner.model.net

    return train, (["gradient-flow", "precise-batchnorm"], "precise-batchnorm")


def in_keras():
    import keras

    from sconce.keras import Callback

    class Dies(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            killed.passed()

    def train(directory, hooks=HOOKS, resume=False):
        net = Net()
        # Names of layers are counted in a process: those of a resumed run begin again.
        keras.utils.clear_session()
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(2)])
        model.set_weights([one.detach().T.numpy() if one.dim() == 2 else one.detach().numpy() for one in net.parameters()])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(0.1), loss, metrics=["accuracy"])
        inputs, targets = samples()
        # Keras has no checkpoint that its own callbacks don't write: hooks' states lie beside it.
        backup = directory / "backup"
        callbacks = [
            Callback(hooks, output=directory / "hooks", plugins=PLUGINS, backup=backup),
            keras.callbacks.BackupAndRestore(str(backup), delete_checkpoint=False),
            Dies(),
        ]
        model.fit(
            inputs, targets, batch_size=SIZE, epochs=EPOCHS, shuffle=False, verbose=0, validation_data=samples(1), callbacks=callbacks
        )
        for one, trained in zip(net.parameters(), model.get_weights()):
            one.data.copy_(torch.as_tensor(trained).T if one.dim() == 2 else torch.as_tensor(trained))
        return net

    return train, (["gradient-flow", "precise-batchnorm"], "precise-batchnorm")


KNOWN = {"lightning": in_lightning, "transformers": in_transformers, "mmengine": in_mmengine, "keras": in_keras}


def main(names=()):
    names = names or KNOWN
    made = {name: KNOWN[name]() for name in names}
    place = pathlib.Path(tempfile.mkdtemp())
    try:
        for name, (train, _) in made.items():
            # In copies of this process, while it has no threads: batch 8 is in the middle of the second epoch.
            killed.at(8, lambda: train(place / name / "parts"))
        for name, (train, (hooks, word)) in made.items():
            check_whole(place / name / "whole/hooks", train(place / name / "whole"))
            train(place / name / "parts", resume=True)
            killed.check_same(place / name / "whole/hooks", place / name / "parts/hooks", least=3)
            refused(lambda: train(place / name / "no", hooks), word)
            print(f"ok: {name}")
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main(sys.argv[1:])
