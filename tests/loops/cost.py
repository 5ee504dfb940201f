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


if __name__ == "__main__":
    each, rest, empty = unused()
    print(f"a mount point that no hook uses: {each:.0f} ns; the rest of a batch: {rest:.0f} ns; an empty method: {empty:.0f} ns")
    found = averages()
    print({name: round(value, 1) for name, value in found.items()}, "ratio", round(found["ema"] / found["lerp"], 2))
