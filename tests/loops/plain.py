"""Hooks in a loop of PyTorch's own, against what PyTorch computes itself.

    python tests/loops/plain.py        with torch, and `SCONCE_LIBRARY` or an installed wheel

Averages against `torch.optim.swa_utils`, clipping against `clip_grad_norm_`, the numbers in `csv` against the loop's, an interrupted run
against one that was not, and everything that a loop can do wrong.
"""
import csv
import os
import pathlib
import sys
import tempfile

import torch

import killed
import sconce

PLUGINS = [os.environ["SCONCE_PLUGINS"]] if "SCONCE_PLUGINS" in os.environ else []
EPOCHS, BATCHES, SIZE = 3, 7, 8


def data(seed=0):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(BATCHES * SIZE, 6, generator=generator)
    targets = (inputs.sum(1) > 0).long()
    return [(inputs[i : i + SIZE], targets[i : i + SIZE]) for i in range(0, len(inputs), SIZE)]


def model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 2))


def train(hooks, net, optimizer, directory, *, after_step=None, criterion=torch.nn.functional.cross_entropy, states=None, stop_at=None, **options):
    """A loop as its page has it; returns what it has computed itself, and the hooks' last states."""
    losses, saved = [], None
    with sconce.Hooks(hooks, model=net, optimizer=optimizer, output=directory, epochs=EPOCHS, validation_batches=BATCHES, plugins=PLUGINS, states=states, **options) as host:
        for epoch in host.epochs():
            sums, samples = 0.0, 0
            for step in host.training(data()):
                inputs, targets = step.batch
                outputs = step.after_forward(net(inputs))
                loss = criterion(outputs, targets)
                sums, samples = sums + loss.item() * len(inputs), samples + len(inputs)
                step.after_loss(loss).backward()
                step.update()
                if after_step:
                    after_step(host)
            losses.append(sums / samples)
            for step in host.validation(data(1)):
                inputs, targets = step.batch
                with torch.no_grad():
                    outputs = step.after_forward(net(inputs))
                    step.after_loss(criterion(outputs, targets))
            if stop_at == epoch:
                host.end_cycle()
                saved = host.state_dict()
                break
    return losses, saved


def rows(directory, name="train.csv"):
    with open(pathlib.Path(directory) / name, newline="") as file:
        return list(csv.DictReader(file))


def a_killed_run_is_one_that_was_not(place):
    """The first test: the copy that is killed must have no threads to wait for."""
    hooks = ["csv", {"hook": "jsonl", "config": {"interval": 1}}, {"hook": "ema", "config": {"decay": 0.9}}, {"hook": "grad-clip", "config": {"max_norm": 0.5}}]

    def run(directory):
        checkpoint = directory / "checkpoint.pt"
        net = model()
        optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
        kept = torch.load(checkpoint, weights_only=True) if checkpoint.exists() else {"hooks": None}
        if kept["hooks"] is not None:
            net.load_state_dict(kept["model"])
            optimizer.load_state_dict(kept["optimizer"])

        with sconce.Hooks(hooks, model=net, optimizer=optimizer, output=directory / "hooks", epochs=EPOCHS, plugins=PLUGINS, states=kept["hooks"]) as host:
            for _ in host.epochs():
                for step in host.training(data()):
                    inputs, targets = step.batch
                    step.after_loss(torch.nn.functional.cross_entropy(step.after_forward(net(inputs)), targets)).backward()
                    step.update()
                    step.end()
                    if host.position()["iteration"] % 4 == 0:
                        torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict(), "hooks": host.state_dict()}, directory / "part.pt")
                        os.replace(directory / "part.pt", checkpoint)
                    killed.passed()
        return net

    for name in ("whole", "parts"):
        (place / name).mkdir()
    # Of 7 batches an epoch: the checkpoint is of batch 8, the second epoch's first.
    killed.at(11, lambda: run(place / "parts"))
    whole, parts = run(place / "whole"), run(place / "parts")
    assert all(torch.equal(one, other) for one, other in zip(whole.parameters(), parts.parameters()))
    killed.check_same(place / "whole/hooks", place / "parts/hooks", least=2)


def averages_are_those_of_swa_utils(place):
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    theirs = torch.optim.swa_utils.AveragedModel(net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    # Its first call copies: both averages begin with the initial parameters.
    theirs.update_parameters(net)
    ema = {"hook": "ema", "config": {"decay": 0.9, "warm_up": "none"}}
    with sconce.Hooks([ema], model=net, optimizer=optimizer, output=place, epochs=1, plugins=PLUGINS) as host:
        for _ in host.epochs():
            for step in host.training(data()):
                inputs, targets = step.batch
                outputs = step.after_forward(net(inputs))
                step.after_loss(torch.nn.functional.cross_entropy(outputs, targets)).backward()
                step.update()
                theirs.update_parameters(net)
            before = [parameter.detach().clone() for parameter in net.parameters()]
            swapped = []
            for step in host.validation(data(1)):
                inputs, targets = step.batch
                swapped = [parameter.detach().clone() for parameter in net.parameters()]
                with torch.no_grad():
                    step.after_loss(torch.nn.functional.cross_entropy(step.after_forward(net(inputs)), targets))
            after = [parameter.detach().clone() for parameter in net.parameters()]
    for one, other in zip(swapped, theirs.module.parameters()):
        assert torch.allclose(one, other, rtol=1e-6, atol=1e-8), (one - other).abs().max()
    assert all(torch.equal(one, other) for one, other in zip(before, after)), "swapped back, to the bit"


def clipping_is_that_of_pytorch(place):
    ours, theirs = model(), model()
    loss = lambda net, batch: 100 * torch.nn.functional.cross_entropy(net(batch[0]), batch[1])
    optimizers = [torch.optim.SGD(net.parameters(), 0.01) for net in (ours, theirs)]
    with sconce.Hooks([{"hook": "grad-clip", "config": {"max_norm": 1.0}}], model=ours, optimizer=optimizers[0], output=place, plugins=PLUGINS) as host:
        for _ in host.epochs():
            for step in host.training(data()):
                step.after_forward(None)
                value = loss(ours, step.batch)
                step.after_loss(value).backward()
                step.update()
                optimizers[1].zero_grad()
                loss(theirs, step.batch).backward()
                torch.nn.utils.clip_grad_norm_(theirs.parameters(), 1.0)
                optimizers[1].step()
    for one, other in zip(ours.parameters(), theirs.parameters()):
        assert torch.allclose(one, other, rtol=1e-5, atol=1e-7), (one - other).abs().max()


def csv_has_the_loops_numbers(place):
    net = model()
    losses, _ = train(["csv"], net, torch.optim.SGD(net.parameters(), 0.1), place)
    found = [float(row["loss"]) for row in rows(place)]
    assert len(found) == EPOCHS and all(abs(one - other) < 1e-12 for one, other in zip(found, losses)), (found, losses)


def an_interrupted_run_is_one_that_was_not(place):
    hooks = [{"hook": "ema", "config": {"decay": 0.9}}, "csv", {"hook": "grad-clip", "config": {"max_norm": 1.0}}, {"hook": "early-stopping", "config": {"monitor": "loss", "patience": 5}}]

    def fresh():
        net = model()
        return net, torch.optim.Adam(net.parameters(), 0.01)

    net, optimizer = fresh()
    train(hooks, net, optimizer, place / "whole")
    first, steps = fresh()
    _, states = train(hooks, first, steps, place / "parts", stop_at=0)
    torch.save({"model": first.state_dict(), "optimizer": steps.state_dict(), "hooks": states}, place / "checkpoint.pt")
    kept = torch.load(place / "checkpoint.pt", weights_only=True)
    second, steps = fresh()
    second.load_state_dict(kept["model"])
    steps.load_state_dict(kept["optimizer"])
    train(hooks, second, steps, place / "parts", states=kept["hooks"])
    assert all(torch.equal(one, other) for one, other in zip(net.parameters(), second.parameters()))
    timeless = lambda row: {key: value for key, value in row.items() if "second" not in key and "time" not in key}
    assert [timeless(row) for row in rows(place / "parts")] == [timeless(row) for row in rows(place / "whole")]


def what_a_loop_can_do_wrong_is_said(place):
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    host = sconce.Hooks(["csv"], model=net, optimizer=optimizer, output=place, plugins=PLUGINS)
    steps = host.training(data())
    step = next(steps)
    step.after_forward(net(step.batch[0]))
    try:
        next(steps)
    except sconce.OrderError as error:
        assert "`after_loss` was not called" in str(error), error
    else:
        raise AssertionError("a step left half done")
    host.fail("given up")
    for hooks, word in (([{"hook": "roll-back"}], "roll"), (["no-such-hook"], "no-such-hook")):
        try:
            sconce.Hooks(hooks, model=net, optimizer=optimizer, output=place, plugins=PLUGINS)
        except sconce.Error as error:
            assert word in str(error), error
        else:
            raise AssertionError(f"{hooks} must be refused")
    sparse = torch.nn.Embedding(5, 3, sparse=True)
    optimizer = torch.optim.SGD(sparse.parameters(), 0.1)
    with sconce.Hooks([{"hook": "grad-clip", "config": {"max_norm": 1.0}}], model=sparse, optimizer=optimizer, output=place, plugins=PLUGINS) as host:
        try:
            for step in host.training([torch.tensor([0, 1])]):
                outputs = step.after_forward(sparse(step.batch))
                step.after_loss(outputs.mean()).backward()
                step.update()
        except sconce.HookError as error:
            assert "`weight`" in str(error) and "sparse" in str(error).lower(), error
            # The block ends without another error.
            host.fail(error)


def a_fork_leaves_the_hooks_alone(place):
    net = model()
    with sconce.Hooks(["csv"], model=net, optimizer=torch.optim.SGD(net.parameters(), 0.1), output=place, plugins=PLUGINS) as host:
        child = os.fork()
        if child == 0:
            try:
                host.begin_epoch(1)
            except sconce.HookError as error:
                os._exit(0 if "copy" in str(error) else 1)
            os._exit(2)
        assert os.waitpid(child, 0)[1] == 0


def frozen_parameters_stay_and_updates_have_their_batches(place):
    net = model()
    before = net[0].weight.detach().clone()
    freeze = {"hook": "freeze", "config": {"parameters": ["0.*"]}}
    losses, _ = train([freeze], net, torch.optim.Adam(net.parameters(), 0.1, weight_decay=0.1), place, accumulate=3)
    assert torch.equal(before, net[0].weight) and not torch.equal(model()[3].weight, net[3].weight)


def layouts_other_than_rows_first_are_averaged_too(place):
    net = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with sconce.Hooks([{"hook": "ema", "config": {"decay": 0.5, "warm_up": "none"}}, {"hook": "grad-clip", "config": {"max_norm": 0.01}}], model=net, optimizer=optimizer, output=place, plugins=PLUGINS) as host:
        for _ in host.epochs():
            for step in host.training([torch.randn(2, 3, 8, 8)]):
                outputs = step.after_forward(net(step.batch))
                step.after_loss(outputs.square().mean()).backward()
                step.update()


def main():
    tests = [value for value in globals().values() if callable(value) and getattr(value, "__module__", "") == "__main__"]
    helpers = {data, model, train, rows, main}
    for test in tests:
        if test in helpers or isinstance(test, type):
            continue
        with tempfile.TemporaryDirectory() as place:
            test(pathlib.Path(place))
        print(f"ok: {test.__name__.replace('_', ' ')}")


if __name__ == "__main__":
    sys.exit(main())
