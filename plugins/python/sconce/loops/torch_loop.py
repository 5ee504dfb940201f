"""Sconce's hooks in a loop of PyTorch that you write."""

import numbers

from .._errors import HookError
from .events import NOW, LoopHooks, Served
from .frameworks import PYTORCH


class Hooks(LoopHooks):
    """Sconce's hooks in a loop of PyTorch's.

    ```python
    with sconce.Hooks(["csv", {"hook": "ema", "config": {"decay": 0.99}}], model=model, optimizer=optimizer, output="runs/a", epochs=3) as hooks:
        for epoch in hooks.epochs():
            for step in hooks.training(loader):
                inputs, targets = step.batch
                outputs = step.after_forward(model(inputs))
                loss = step.after_loss(criterion(outputs, targets))
                loss.backward()
                step.update()
            for step in hooks.validation(validation_loader):
                inputs, targets = step.batch
                outputs = step.after_forward(model(inputs))
                step.after_loss(criterion(outputs, targets))
    ```

    - `hooks`: entries as in a manifest, or the path of a JSON file that has them under `hooks`
    - `output`: the directory in which hooks write their files
    - `epochs`, `batches`, `validation_batches`: what hooks plan by. A hook that watches a metric of the validation is refused without
      `validation_batches`; 0: not known how many
    - `accumulate`: batches per update; hooks may set another number
    - `metrics`: names of metrics that the loop sets by `step.metric`
    - `classes`, `sample_shape`: names of the classes, and the shape of a sample's inputs, for hooks that show them
    - `states`: what `state_dict` returned, to go on from
    - `save(tag, states)`, `load(tag, set)`, `validate()`: what hooks may ask for; without them, hooks that may ask are refused here, by name
    """

    def __init__(
        self,
        hooks,
        *,
        model,
        optimizer=None,
        output=None,
        name=None,
        seed=0,
        plugins=(),
        epochs=1,
        batches=None,
        validation_batches=None,
        accumulate=1,
        metrics=(),
        classes=(),
        sample_shape=(),
        states=None,
        save=None,
        load=None,
        delete=None,
        copy=None,
        validate=None,
        log=None,
    ):
        self._epochs = epochs
        self._accumulate = accumulate
        plan = {"epochs": epochs, "accumulate": accumulate, "metrics": list(metrics), "classes": list(classes), "sample_shape": list(sample_shape)}
        if batches is not None:
            plan["batches"] = batches
        if validation_batches is not None:
            plan["validation_batches"] = validation_batches
        services = {"save": save, "load": load, "delete": delete, "copy": copy, "validate": validate}
        super().__init__(
            hooks,
            model=model,
            optimizer=optimizer,
            output=output,
            name=name,
            seed=seed,
            plugins=plugins,
            plan=plan,
            served=Served(services, PYTORCH.reasons, log),
            states=None if states is None else _bytes_of(states),
        )
        self._open = None

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _trace):
        if error is None:
            self.finish()
        else:
            try:
                self.fail(f"{kind.__name__}: {error}")
            except HookError as other:
                error.add_note(f"and then {other}") if hasattr(error, "add_note") else None
        return False

    def epochs(self):
        """The numbers of the epochs that are left, from 0, until hooks want the training to end."""
        while True:
            self.end_cycle()
            epoch = self.position()["epoch"]
            if self.stopping() or epoch >= self._epochs:
                self._end_training()
                return
            yield epoch

    def training(self, loader):
        """The steps of a pass over the training data: one for each batch that no hook skips."""
        return self._pass(loader, "train")

    def validation(self, loader):
        """The steps of a pass that changes no parameters."""
        return self._pass(loader, "val")

    def test(self, loader):
        """As `validation`, for the test's data."""
        return self._pass(loader, "test")

    def _pass(self, loader, phase):
        is_training = phase == "train"
        count = len(loader) if hasattr(loader, "__len__") else None
        if is_training:
            self.begin_epoch(count)
        else:
            self.begin_evaluation(phase, count)
        done = self.position()["trained"] if is_training else 0
        is_whole = False
        try:
            for index, batch in enumerate(loader):
                # Of an epoch that was left at a checkpoint, these have been trained.
                if index < done:
                    continue
                step = Step(self, batch, is_training)
                if not step.begin():
                    yield step
                    step.end()
                if is_training and self.stopping() == NOW:
                    break
            else:
                is_whole = True
        except GeneratorExit:
            # The loop has left the pass early: it counts as it is, if its last step was finished.
            self._leave(is_training)
            raise
        if is_training:
            self.end_epoch(True if is_whole else None)
        else:
            self.end_evaluation()

    def _leave(self, is_training):
        if self._open is not None and not self._is_over:
            self._open.end()
        if not self._is_over:
            self.end_epoch(True) if is_training else self.end_evaluation()

    def state_dict(self):
        """The hooks' states as a tensor of bytes in a dict, for a checkpoint that `torch.save` writes."""
        import torch

        return {"states": torch.frombuffer(bytearray(self.states()), dtype=torch.uint8)}

    def load_state_dict(self, states):
        """Goes back to what `state_dict` returned."""
        self.restore(_bytes_of(states))


class Step:
    """The step of one batch; `batch` is what the loader gave."""

    def __init__(self, hooks, batch, is_training):
        self.batch = batch
        self._hooks = hooks
        self._is_training = is_training

    def begin(self):
        """Calls the hooks of `before_iter`; returns whether they skip the batch."""
        inputs, targets = _parts(self.batch)
        is_skipped = self._hooks.begin_batch(_samples(self.batch), None, inputs, targets)
        if is_skipped:
            self._hooks.end_batch()
        else:
            self._hooks._open = self
        return is_skipped

    def after_forward(self, outputs):
        """Takes the model's outputs and returns them."""
        self._hooks.after_forward(outputs)
        return outputs

    def after_loss(self, loss):
        """Takes the loss, a mean over the batch's samples; returns it for the backward pass: times what hooks scale it by, and its
        part of the update."""
        factor = self._hooks.after_loss(loss.item())
        if not self._is_training:
            return loss
        batches = self._hooks._accumulation() or self._hooks._accumulate
        factor /= batches
        return loss if factor == 1.0 else loss * factor

    def metric(self, name, value):
        """Sets a metric of the pass: its value over the batches until now."""
        self._hooks.metric(name, value)

    def after_backward(self):
        """The gradients are there. Returns whether the optimizer is to step now: not while an update has batches to come, nor if hooks
        skip it."""
        hooks = self._hooks
        hooks.after_backward()
        return hooks._updates() and not hooks.before_update()

    def after_update(self):
        """The optimizer has stepped."""
        self._hooks.after_update()

    def update(self):
        """After `loss.backward()`: calls the hooks, and if an update is due, steps the optimizer and clears the gradients."""
        hooks = self._hooks
        optimizer = hooks.optimizer
        if optimizer is None:
            raise HookError("`update` steps the optimizer: give it to `Hooks(…, optimizer=…)`, or call `after_backward` and `after_update`")
        hooks.after_backward()
        if not hooks._updates():
            return
        if not hooks.before_update():
            optimizer.step()
            hooks.after_update()
        optimizer.zero_grad()

    def end(self):
        """Calls the hooks of `after_iter`. The iterator does so by itself; a loop that writes a checkpoint within an epoch does it first."""
        if self._hooks._open is self:
            self._hooks._open = None
            self._hooks.end_batch()


def _parts(batch):
    """Inputs and targets of a batch of two."""
    if isinstance(batch, (tuple, list)) and len(batch) == 2:
        return batch[0], batch[1]
    return None, None


def _samples(batch):
    """Samples of a batch: the first size of the first tensor in it."""
    if hasattr(batch, "shape"):
        return int(batch.shape[0]) if len(batch.shape) else 1
    if isinstance(batch, dict):
        batch = list(batch.values())
    if isinstance(batch, (tuple, list)) and batch:
        return _samples(batch[0])
    return 1 if isinstance(batch, numbers.Number) else len(batch) if hasattr(batch, "__len__") else 1


def _bytes_of(states):
    """The bytes in what `state_dict` or `states` returned."""
    if isinstance(states, dict):
        states = states["states"]
    if hasattr(states, "numpy"):
        states = states.cpu().numpy().tobytes()
    return bytes(states)


