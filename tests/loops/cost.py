"""What hooks add to an iteration of each loop, beside the same hooks of the framework: microseconds, the least of rounds in turn.

    python tests/loops/cost.py [unused] [averages] [further] [whole]      all by default
"""
import os
import statistics
import sys
import tempfile
import time

import torch

import sconce

torch.set_num_threads(1)
PLUGINS = [os.environ["SCONCE_PLUGINS"]] if "SCONCE_PLUGINS" in os.environ else []


def unused():
    """Nanoseconds of a mount point that no hook uses, of a batch without the five in its middle, and of an empty method."""

    class Empty:
        def call(self):
            pass

    net = torch.nn.Linear(4, 2)
    place = tempfile.mkdtemp()
    count = 20000
    empty = Empty()

    def least(work):
        best = 1e9
        for _ in range(7):
            begin = time.perf_counter()
            for _ in range(count):
                work()
            best = min(best, (time.perf_counter() - begin) / count)
        return best * 1e9

    with sconce.Hooks(["csv"], model=net, output=place, plugins=PLUGINS) as host:
        host.begin_epoch(1)

        def points():
            host.after_forward()
            host.after_loss(1.0)
            host.after_backward()
            host.before_update()
            host.after_update()

        def batch():
            host.begin_batch(8)
            points()
            host.end_batch()

        def skipped():
            host.begin_batch(8)
            host._passed = 31
            host.end_batch()

        whole, without = least(batch), least(skipped)
        host.end_epoch()
    return (whole - without) / 5, without, least(empty.call)


def averages():
    """An update of `ema` over 10^6 parameters in 200 tensors, beside a bare `_foreach_lerp_` and `AveragedModel`: the median and the least,
    in microseconds. Beside other programs, memory is what all three wait for: the least is of a quiet moment."""

    class Many(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.all = torch.nn.ParameterList(torch.randn(5000) for _ in range(200))

    net = Many()
    place = tempfile.mkdtemp()
    theirs = torch.optim.swa_utils.AveragedModel(net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    others = [torch.zeros(5000) for _ in range(200)]
    own = [parameter.detach() for parameter in net.parameters()]
    times = {"ema": [], "lerp": [], "AveragedModel": []}
    ema = {"hook": "ema", "config": {"decay": 0.9, "warm_up": "none"}}
    with sconce.Hooks([ema], model=net, output=place, plugins=PLUGINS) as host:
        host.begin_epoch(1)
        for _ in range(1000):
            host.begin_batch(8)
            host.after_forward()
            host.after_loss(1.0)
            host.after_backward()
            host.before_update()
            for name, call in (
                ("ema", host.after_update),
                ("lerp", lambda: torch._foreach_lerp_(others, own, 0.1)),
                ("AveragedModel", lambda: theirs.update_parameters(net)),
            ):
                begin = time.perf_counter()
                call()
                times[name].append(time.perf_counter() - begin)
            host.end_batch()
        host.end_epoch()
    return {name: (statistics.median(found) * 1e6, min(found) * 1e6) for name, found in times.items()}


def further():
    """Microseconds of a batch with 0, 1, 5 and 20 hooks that are called at `after_iter`, and of `on_train_batch_end` with as many callbacks
    of Lightning's, `on_step_end` of Transformers' and `after_train_iter` of MMEngine's that do nothing."""
    counts = (0, 1, 5, 20)
    found = {"Sconce": [hooked(count) for count in counts]}
    try:
        found["Lightning"] = [lightning(count) for count in counts]
        found["Transformers"] = [transformers(count) for count in counts]
        found["MMEngine"] = [mmengine(count) for count in counts]
    except ImportError as problem:
        print(f"left out: {problem}")
    return found


def least_of(work, count=2000):
    best = 1e9
    for _ in range(9):
        begin = time.perf_counter()
        for _ in range(count):
            work()
        best = min(best, (time.perf_counter() - begin) / count)
    return best * 1e6


def hooked(count):
    net = torch.nn.Linear(4, 2)
    hooks = [{"hook": "stop-after", "name": f"stop-{index}", "config": {"iterations": 10**9}} for index in range(count)]
    with sconce.Hooks(hooks or ["csv"], model=net, output=tempfile.mkdtemp(), plugins=PLUGINS, log=lambda *_: None) as host:
        host.begin_epoch(1)

        def batch():
            host.begin_batch(8)
            host.after_forward()
            host.after_loss(1.0)
            host.after_backward()
            host.before_update()
            host.after_update()
            host.end_batch()

        took = least_of(batch)
        host.end_epoch()
    return took


def lightning(count):
    import lightning.pytorch as pl
    from lightning.pytorch.trainer import call

    class Nothing(pl.Callback):
        def on_train_batch_end(self, *_):
            pass

    trainer = pl.Trainer(
        callbacks=[Nothing() for _ in range(count)], logger=False, enable_progress_bar=False, enable_checkpointing=False,
        enable_model_summary=False, accelerator="cpu",
    )
    trainer.strategy._lightning_module = pl.LightningModule()
    return least_of(lambda: call._call_callback_hooks(trainer, "on_train_batch_end", None, None, 0))


def transformers(count):
    import transformers

    class Nothing(transformers.TrainerCallback):
        def on_step_end(self, *_, **__):
            pass

    handler = transformers.trainer_callback.CallbackHandler([Nothing() for _ in range(count)], None, None, None, None)
    state, control = transformers.TrainerState(), transformers.TrainerControl()
    return least_of(lambda: handler.on_step_end(None, state, control))


def mmengine(count):
    from mmengine.hooks import Hook
    from mmengine.runner import Runner

    class Nothing(Hook):
        def after_train_iter(self, *_, **__):
            pass

    runner = Runner.__new__(Runner)
    runner._hooks = [Nothing() for _ in range(count)]
    return least_of(lambda: runner.call_hook("after_train_iter", batch_idx=0, data_batch=None, outputs=None))


# Whole iterations: a network of 16-32-4, batches of 8, SGD; each training is one of this many, of which the median counts.
ITERATIONS, ROUNDS = 300, 3
EMA = {"hook": "ema", "config": {"decay": 0.999, "warm_up": "none"}}
JSONL = {"hook": "jsonl", "config": {"interval": 10, "file": "lines.jsonl"}}


def some(count):
    """As many hooks, of those that are called in every iteration."""
    mixed = [EMA, {"hook": "grad-clip", "config": {"max_norm": 1.0}}, JSONL, "anomaly", {"hook": "stop-after", "config": {"iterations": 10**9}}]
    more = [{"hook": "stop-after", "name": f"stop-{index}", "config": {"iterations": 10**9}} for index in range(count)]
    return [mixed[-1]] if count == 1 else (mixed + more)[:count]


class Net(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))


BATCHES = [(torch.randn(8, 16), torch.randint(0, 4, (8,))) for _ in range(ITERATIONS)]


class Clock:
    """The median of what an iteration takes, in microseconds."""

    def __init__(self):
        self.ticks = []

    def tick(self):
        self.ticks.append(time.perf_counter())

    def median(self):
        return statistics.median(later - earlier for earlier, later in zip(self.ticks[20:], self.ticks[21:])) * 1e6


def loss_of(net, batch):
    return torch.nn.functional.cross_entropy(net(batch[0]), batch[1])


def in_pytorch(hooks, theirs):
    net, clock = Net(), Clock()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    if not hooks:
        for batch in BATCHES:
            clock.tick()
            loss_of(net, batch).backward()
            optimizer.step()
            optimizer.zero_grad()
        return clock.median()
    with sconce.Hooks(hooks, model=net, optimizer=optimizer, output=tempfile.mkdtemp(), plugins=PLUGINS, log=lambda *_: None) as host:
        for step in host.training(BATCHES):
            clock.tick()
            outputs = step.after_forward(net(step.batch[0]))
            step.after_loss(torch.nn.functional.cross_entropy(outputs, step.batch[1])).backward()
            step.update()
    return clock.median()


def in_lightning(hooks, theirs):
    import lightning.pytorch as pl

    from sconce.lightning import Callback

    clock, place = Clock(), tempfile.mkdtemp()

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = Net()

        def training_step(self, batch, _):
            clock.tick()
            return loss_of(self.net, batch)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    callbacks = [Callback(hooks, output=place, plugins=PLUGINS, log=lambda *_: None)] if hooks else []
    pl.Trainer(
        max_epochs=1, callbacks=callbacks + [make(pl) for make in theirs], default_root_dir=place, enable_progress_bar=False,
        logger=pl.loggers.CSVLogger(place) if theirs else False, enable_checkpointing=False, enable_model_summary=False, accelerator="cpu",
        log_every_n_steps=10,
    ).fit(Module(), torch.utils.data.DataLoader(BATCHES, batch_size=None))
    return clock.median()


def in_transformers(hooks, theirs):
    import transformers

    from sconce.transformers import Callback

    transformers.logging.set_verbosity_error()
    clock, place = Clock(), tempfile.mkdtemp()

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = Net()

        def forward(self, inputs=None, labels=None):
            clock.tick()
            return {"loss": loss_of(self.net, (inputs, labels))}

    data = [{"inputs": one, "labels": label} for batch in BATCHES for one, label in zip(*batch)]
    arguments = transformers.TrainingArguments(
        output_dir=place, num_train_epochs=1, per_device_train_batch_size=8, lr_scheduler_type="constant", optim="sgd", max_grad_norm=0.0,
        save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True, remove_unused_columns=False, logging_strategy="no",
    )
    callbacks = [Callback(hooks, output=place, plugins=PLUGINS, log=lambda *_: None)] if hooks else []
    trainer = transformers.Trainer(Model(), arguments, train_dataset=data, callbacks=callbacks)
    trainer.train()
    return clock.median()


def in_mmengine(hooks, theirs):
    import mmengine

    from sconce.mmengine import Hook

    clock, place = Clock(), tempfile.mkdtemp()

    class Model(mmengine.model.BaseModel):
        def __init__(self):
            super().__init__()
            self.net = Net()

        def forward(self, inputs, targets, mode):
            clock.tick()
            return {"loss": loss_of(self.net, (inputs, targets))}

    custom = [Hook(hooks, output=place, plugins=PLUGINS, log=lambda *_: None)] if hooks else []
    logs = "LoggerHook" in theirs
    mmengine.runner.Runner(
        model=Model(), work_dir=place, train_dataloader=torch.utils.data.DataLoader(BATCHES, batch_size=None),
        optim_wrapper={"optimizer": {"type": "SGD", "lr": 0.1}}, train_cfg={"by_epoch": False, "max_iters": ITERATIONS},
        default_hooks={
            "logger": {"type": "LoggerHook", "interval": 10} if logs else None, "checkpoint": None, "timer": {"type": "IterTimerHook"} if logs else None,
            "runtime_info": {"type": "RuntimeInfoHook"} if logs else None, "param_scheduler": None, "sampler_seed": None,
        },
        custom_hooks=custom + ([{"type": "EMAHook"}] if "EMAHook" in theirs else []), experiment_name=os.path.basename(place), log_level="ERROR",
    ).train()
    return clock.median()


def whole():
    """Prints a table: an iteration of each loop with 0, 1, 5 and 20 hooks, with `ema`, with `jsonl`, and with the framework's own."""
    os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"
    ours = {"none": [], "1": some(1), "5": some(5), "20": some(20), "`ema`": [EMA], "`jsonl`": [JSONL]}
    loops = {
        "PyTorch": (in_pytorch, {}),
        "Lightning": (
            in_lightning,
            {
                "LearningRateMonitor": [lambda pl: pl.callbacks.LearningRateMonitor("step")],
                "StochasticWeightAveraging": [lambda pl: pl.callbacks.StochasticWeightAveraging(0.01, swa_epoch_start=1)],
            },
        ),
        "Transformers": (in_transformers, {}),
        "MMEngine": (in_mmengine, {"EMAHook": ["EMAHook"], "LoggerHook": ["LoggerHook"]}),
    }
    print("| µs per iteration | " + " | ".join(ours) + " | the framework's own |\n" + "|---" * (len(ours) + 2) + "|")
    for name, (run, own) in loops.items():
        best = {}
        try:
            for _ in range(ROUNDS):
                for label, hooks in ours.items():
                    best.setdefault(label, []).append(run(hooks, []))
                for label, theirs in own.items():
                    best.setdefault(label, []).append(run([], theirs))
        except ImportError as problem:
            print(f"left out: {problem}")
            continue
        least = {label: min(found) for label, found in best.items()}
        theirs = ", ".join(f"`{label}` {least[label]:.0f}" for label in own) or "–"
        print(f"| {name} | " + " | ".join(f"{least[label]:.0f}" for label in ours) + f" | {theirs} |", flush=True)


def main(parts):
    if "unused" in parts:
        each, rest, empty = unused()
        print(f"a mount point that no hook uses: {each:.0f} ns; the rest of a batch: {rest:.0f} ns; an empty method: {empty:.0f} ns")
    if "averages" in parts:
        found = averages()
        for which, index in (("median", 0), ("least", 1)):
            times = {name: round(values[index], 1) for name, values in found.items()}
            print(f"{which}: {times}, ratio {times['ema'] / times['lerp']:.2f}")
    if "further" in parts:
        for loop, times in further().items():
            each = (times[3] - times[1]) / 19
            print(f"{loop}: 0, 1, 5, 20: {', '.join(f'{value:.2f}' for value in times)} us; each further: {each:.3f} us")
    if "whole" in parts:
        whole()


if __name__ == "__main__":
    main(sys.argv[1:] or ("unused", "averages", "further", "whole"))
