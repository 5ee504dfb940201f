"""What hooks add to an iteration of each loop, beside the same hooks of the framework: microseconds, the least of rounds in turn.

    python tests/loops/cost.py
"""
import os
import statistics
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
    """An update of `ema` over 10^6 parameters in 200 tensors, beside a bare `_foreach_lerp_` and `AveragedModel`, in microseconds."""

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
        for _ in range(200):
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
    return {name: statistics.median(found) * 1e6 for name, found in times.items()}


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


if __name__ == "__main__":
    each, rest, empty = unused()
    print(f"a mount point that no hook uses: {each:.0f} ns; the rest of a batch: {rest:.0f} ns; an empty method: {empty:.0f} ns")
    found = averages()
    print({name: round(value, 1) for name, value in found.items()}, "ratio", round(found["ema"] / found["lerp"], 2))
    for loop, times in further().items():
        each = (times[3] - times[1]) / 19
        print(f"{loop}: 0, 1, 5, 20: {', '.join(f'{value:.2f}' for value in times)} us; each further: {each:.3f} us")
