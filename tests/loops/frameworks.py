"""The same plugin files in Lightning, Transformers' Trainer and MMEngine: what hooks write against what a loop computes, and each
framework's own checkpoint against a run that was not interrupted.

    python tests/loops/frameworks.py [lightning] [transformers] [mmengine]     with those installed; all by default
"""
import csv
import logging
import os
import pathlib
import shutil
import sys
import tempfile
import warnings

import torch

import sconce

PLUGINS = [os.environ["SCONCE_PLUGINS"]] if "SCONCE_PLUGINS" in os.environ else []
EPOCHS, BATCHES, SIZE = 3, 5, 8
HOOKS = [
    "csv",
    {"hook": "ema", "config": {"decay": 0.9, "warm_up": "none"}},
    {"hook": "grad-clip", "config": {"max_norm": 0.5}},
    "anomaly",
    "report",
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


def check_parts(whole, parts):
    """Compares a run in two parts with one that was not interrupted: what its hooks have written."""
    assert rows(whole) == rows(parts), (rows(whole), rows(parts))


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


def in_lightning(place):
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

    def trainer(callback, epochs, **options):
        return pl.Trainer(
            max_epochs=epochs,
            callbacks=[callback],
            default_root_dir=place,
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            enable_checkpointing=False,
            accelerator="cpu",
            **options,
        )

    module = Module()
    trainer(Callback(HOOKS, output=place / "whole", plugins=PLUGINS), EPOCHS).fit(module, loader(), loader(1))
    check_whole(place / "whole", module.net)
    first = trainer(Callback(HOOKS, output=place / "parts", plugins=PLUGINS), 1)
    module = Module()

    class Kept(pl.Callback):
        def on_train_end(self, trainer, _):
            trainer.save_checkpoint(place / "one.ckpt")

    first.callbacks.insert(0, Kept())
    first.fit(module, loader(), loader(1))
    second = trainer(Callback(HOOKS, output=place / "parts", plugins=PLUGINS), EPOCHS)
    second.fit(Module(), loader(), loader(1), ckpt_path=place / "one.ckpt")
    check_parts(place / "whole", place / "parts")
    refused(lambda: trainer(Callback(["gradient-flow", "activation-stats"], output=place / "no", plugins=PLUGINS), 1).fit(Module(), loader()), "activation-stats")


def in_transformers(place):
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

    def trainer(model, directory, epochs, hooks=HOOKS, **options):
        arguments = transformers.TrainingArguments(
            output_dir=str(directory),
            num_train_epochs=EPOCHS,
            max_steps=epochs * BATCHES,
            per_device_train_batch_size=SIZE,
            per_device_eval_batch_size=SIZE,
            learning_rate=0.1,
            lr_scheduler_type="constant",
            optim="sgd",
            max_grad_norm=0.0,
            eval_strategy="epoch",
            save_strategy="epoch",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            remove_unused_columns=False,
            **options,
        )
        callback = Callback(hooks, output=directory / "hooks", plugins=PLUGINS)
        return Trainer(model, arguments, train_dataset=Data(0), eval_dataset=Data(1), callbacks=[callback])

    model = Model()
    trainer(model, place / "whole", EPOCHS).train()
    check_whole(place / "whole/hooks", model.net)
    trainer(Model(), place / "parts", 1).train()
    model = Model()
    trainer(model, place / "parts", EPOCHS).train(resume_from_checkpoint=True)
    check_parts(place / "whole/hooks", place / "parts/hooks")
    refused(lambda: trainer(Model(), place / "no", 1, ["checkpoint"]).train(), "checkpoint")


def in_mmengine(place):
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

    def runner(directory, epochs, hooks=HOOKS, **options):
        return mmengine.runner.Runner(
            model=Model(),
            work_dir=str(directory),
            train_dataloader=loader(),
            val_dataloader=loader(1),
            val_evaluator=[Accuracy()],
            optim_wrapper={"optimizer": {"type": "SGD", "lr": 0.1}},
            train_cfg={"by_epoch": True, "max_epochs": epochs, "val_interval": 1},
            val_cfg={},
            default_hooks={"logger": None, "checkpoint": {"type": "CheckpointHook", "interval": 1}, "timer": None},
            custom_hooks=[Hook(hooks, output=directory / "hooks", plugins=PLUGINS)],
            experiment_name=f"{directory.name}{len(os.listdir(directory.parent))}",
            log_level="ERROR",
            **options,
        )

    whole = runner(place / "whole", EPOCHS)
    whole.train()
    check_whole(place / "whole/hooks", whole.model.net)
    runner(place / "parts", 1).train()
    runner(place / "parts", EPOCHS, resume=True).train()
    check_parts(place / "whole/hooks", place / "parts/hooks")
    refused(lambda: runner(place / "no", 1, ["gradient-flow", "activation-stats"]).train(), "activation-stats")


def main():
    known = {"lightning": in_lightning, "transformers": in_transformers, "mmengine": in_mmengine}
    for name in sys.argv[1:] or known:
        place = pathlib.Path(tempfile.mkdtemp())
        try:
            known[name](place)
        finally:
            shutil.rmtree(place)
        print(f"ok: {name}")


if __name__ == "__main__":
    main()
