"""Sconce's hooks in Keras 3: one callback that carries them all, with the backends torch and jax.

```python
from sconce.keras import Callback

model.fit(inputs, targets, epochs=3, callbacks=[Callback(["csv", {"hook": "ema", "config": {"decay": 0.99}}], output="runs/a")])
```

With the backend torch, the model's `train_step`, `test_step` and `compute_loss` and the optimizer's `scale_loss` and `apply` call hooks while
the training runs. With jax a step is one compiled function, in which nothing can be called: hooks run at batches and epochs, and those that
need more are refused.
"""

import os
import pathlib

import keras

from ._errors import HookError
from .loops.events import NOW, LoopHooks, Served
from .loops.files import write_whole
from .loops.frameworks import KERAS, KERAS_JAX
from .loops.torch_loop import _samples

__all__ = ["Callback"]

# What the loop of a step's own sets as metrics by itself.
_LOSS = "loss"


class Callback(keras.callbacks.Callback):
    """Carries Sconce's hooks into `model.fit`.

    - `hooks`: entries as in a manifest, or the path of a JSON file that has them under `hooks`
    - `output`: the directory in which hooks write their files
    - `backup`: a directory for the hooks' states, written after each epoch; give it the directory of `BackupAndRestore`, and list this
      callback before that one. A training that begins at a later epoch goes on from them
    - `plan`: more of what hooks plan by: `classes`, `sample_shape`, `metrics`

    Hooks that may ask for what Keras can't do are refused when the training begins, by name.
    """

    def __init__(self, hooks, *, output=None, name=None, seed=0, plugins=(), log=None, backup=None, plan=None):
        super().__init__()
        self._options = {"output": output, "name": name, "seed": seed, "plugins": plugins}
        self._entries = hooks
        self._log = log
        self._more = plan or {}
        self._backup = None if backup is None else pathlib.Path(backup)
        self._hooks = None
        self._step = None
        self._is_training = False

    # The run.

    def on_train_begin(self, logs=None):
        if keras.distribution.distribution() is not None:
            raise HookError("Sconce's hooks in Keras run on one device; this training is distributed")
        self._is_training = True
        self._validates = False

    def _start(self, epoch):
        """Creates the hooks, at the first epoch of this training."""
        on_torch = keras.backend.backend() == "torch"
        if not on_torch and keras.backend.backend() != "jax":
            raise HookError(f"Sconce's hooks run with Keras' backends torch and jax, not with {keras.backend.backend()}")
        framework = KERAS if on_torch else KERAS_JAX
        optimizer = self.model.optimizer
        if on_torch and getattr(optimizer, "gradient_accumulation_steps", None):
            raise HookError("the optimizer accumulates gradients within itself (`gradient_accumulation_steps`): hooks can't tell its updates")
        rates = _Rates(optimizer)
        follows = [one for one in framework.follows if one != "set_learning_rate" or rates.can_be_set]
        group = {"name": "default", "learning_rate": rates.now()}
        plan = {"epochs": self.params.get("epochs") or 1, "validation_batches": 0, "groups": [group]} | self._more
        if self.params.get("steps"):
            plan["batches"] = self.params["steps"]
        self._hooks = LoopHooks(
            self._entries,
            model=_Variables(self.model if on_torch else None),
            optimizer=rates if on_torch else None,
            plan=plan,
            framework=framework,
            follows=follows,
            served=Served({}, framework.reasons, self._log),
            states=self._saved(epoch),
            **self._options,
        )
        self._rates = rates
        self._step = _TorchStep(self.model, self._hooks) if on_torch else None

    def _saved(self, epoch):
        if self._backup is None or epoch == 0:
            return None
        path = self._file(epoch)
        try:
            return path.read_bytes()
        except FileNotFoundError:
            raise HookError(
                f"the training goes on at epoch {epoch}, and there are no states of hooks for it: no `{path}`. "
                "List this callback before `BackupAndRestore`, or begin in an empty `backup`"
            ) from None

    def _file(self, epoch):
        return self._backup / f"sconce_hooks-{epoch}.bin"

    def on_train_end(self, logs=None):
        self._is_training = False
        hooks, self._hooks = self._hooks, None
        self._leave()
        if hooks is None:
            return
        hooks.finish()
        if self._backup is not None:
            for path in self._backup.glob("sconce_hooks-*.bin"):
                path.unlink()

    def _leave(self):
        if self._step is not None:
            self._step.leave()
            self._step = None

    def fail(self, error):
        """The training has failed, of which Keras tells no callback: `on_exception`, `after_run`, and the hooks are gone."""
        hooks, self._hooks = self._hooks, None
        self._leave()
        if hooks is not None:
            hooks.fail(error)

    # Training.

    def on_epoch_begin(self, epoch, logs=None):
        if self._hooks is None:
            self._start(epoch)
        self._epoch = epoch
        self._logs = {}
        if self._step is None:
            # In the middle of an epoch jax has the optimizer's variables, and nothing can read them.
            self._hooks._set_rates([("default", self._rates.now())])
        self._hooks.begin_epoch(self.params.get("steps"))

    def on_train_batch_begin(self, batch, logs=None):
        if self._step is None:
            # How many samples it has, a compiled step does not say: all batches count alike.
            self._hooks.begin_batch(1)

    def on_train_batch_end(self, batch, logs=None):
        self._logs = logs or {}
        if self._step is None:
            self._hooks.after_loss(None)
            stopping = self._hooks.end_batch()
        else:
            stopping = self._step.stopping
        if stopping == NOW:
            self.model.stop_training = True

    def _end_epoch(self):
        if not self._hooks.is_in_epoch():
            return
        self._show(self._logs)
        self._hooks.end_epoch(True)

    def _show(self, logs):
        """Shows hooks what Keras has measured in a pass. Its mean of the loss stands for one that no batch has told."""
        for name, value in logs.items():
            if self._step is None or name != _LOSS:
                self._hooks.metric(name, float(value))

    def on_epoch_end(self, epoch, logs=None):
        hooks = self._hooks
        self._end_epoch()
        if hooks.end_cycle():
            self.model.stop_training = True
        if self._backup is not None:
            self._keep(epoch + 1)

    def _keep(self, epoch):
        states = self._hooks.states()
        path = self._file(epoch)
        os.makedirs(self._backup, exist_ok=True)
        error = None
        try:
            write_whole(path, states)
            # Keras' own backup follows: until it is there, that of the epoch before is the one to go on from.
            for other in self._backup.glob("sconce_hooks-*.bin"):
                if other not in (path, self._file(epoch - 1)):
                    other.unlink()
        except OSError as problem:
            error = problem
        self._hooks.saved(path, error)
        if error is not None:
            raise error

    # Evaluation within the training; one on its own has no hooks.

    def on_test_begin(self, logs=None):
        if not self._is_training or self._hooks is None:
            return
        self._end_epoch()
        self._validates = True
        self._hooks.begin_evaluation("val")

    def on_test_batch_begin(self, batch, logs=None):
        if self._validates and self._step is None:
            self._hooks.begin_batch(1)

    def on_test_batch_end(self, batch, logs=None):
        if self._validates and self._step is None:
            self._hooks.after_loss(None)
            self._hooks.end_batch()

    def on_test_end(self, logs=None):
        if self._validates:
            self._validates = False
            self._show(logs or {})
            self._hooks.end_evaluation()


class _Rates:
    """A Keras optimizer as hooks see one: a group with a learning rate and a weight decay."""

    def __init__(self, optimizer):
        self.can_be_set = not isinstance(getattr(optimizer, "_learning_rate", None), keras.optimizers.schedules.LearningRateSchedule)
        self.param_groups = [_Group(optimizer)]

    def now(self):
        """The learning rate."""
        return self.param_groups[0]["lr"]


class _Group(dict):
    def __init__(self, optimizer):
        super().__init__()
        self._optimizer = optimizer
        # The optimizer's own variable is read and set; the key alone is here.
        super().__setitem__("lr", None)
        if getattr(optimizer, "weight_decay", None) is not None:
            super().__setitem__("weight_decay", None)

    def __getitem__(self, key):
        return float(self._optimizer.learning_rate if key == "lr" else self._optimizer.weight_decay)

    def get(self, key, default=None):
        return self[key] if key in self else default

    def __setitem__(self, key, value):
        if key == "lr":
            self._optimizer.learning_rate = value
        else:
            self._optimizer.weight_decay = value


class _Variables:
    """A Keras model's variables by their paths, as PyTorch's module has its parameters; none for a backend whose arrays never change."""

    def __init__(self, model):
        self._model = model

    def named_parameters(self):
        return self._named("trainable_variables")

    def named_buffers(self):
        for path, tensor in self._named("non_trainable_variables"):
            if tensor.is_floating_point():
                yield path, tensor

    def _named(self, which):
        for variable in getattr(self._model, which, ()):
            yield variable.path, variable.value


class _TorchStep:
    """Puts hooks' calls around the parts of a step of the backend torch, until `leave`."""

    def __init__(self, model, hooks):
        self._hooks = hooks
        self._wrapped = []
        self.stopping = 0
        self._factor = 1.0
        self._wrap(model, "train_step", self._train_step)
        self._wrap(model, "test_step", self._test_step)
        self._wrap(model, "compute_loss", self._compute_loss)
        self._wrap(model.optimizer, "scale_loss", self._scale_loss)
        self._wrap(model.optimizer, "apply", self._apply)

    def _wrap(self, owner, name, call):
        method = getattr(owner, name)
        # Past the owner's own `__setattr__`, which keeps what is set as part of the model.
        owner.__dict__[name] = lambda *given, **named: call(method, *given, **named)
        self._wrapped.append((owner, name))

    def leave(self):
        for owner, name in self._wrapped:
            owner.__dict__.pop(name, None)

    def _begin(self, data):
        inputs, targets, _ = keras.utils.unpack_x_y_sample_weight(data)
        self._hooks.begin_batch(_samples(inputs), None, inputs, targets)

    def _train_step(self, step, data):
        self._begin(data)
        logs = step(data)
        self.stopping = self._hooks.end_batch()
        return logs

    def _test_step(self, step, data):
        if self._hooks.is_in_epoch():
            return step(data)
        self._begin(data)
        logs = step(data)
        self._hooks.end_batch()
        return logs

    def _compute_loss(self, compute, *given, **named):
        loss = compute(*given, **named)
        outputs = named.get("y_pred", given[2] if len(given) > 2 else None)
        self._hooks.after_forward(outputs)
        self._factor = self._hooks.after_loss(loss.item())
        return loss

    def _scale_loss(self, scale, loss):
        scaled = scale(loss)
        return scaled if self._factor == 1.0 else scaled * self._factor

    def _apply(self, apply, gradients, variables=None):
        hooks = self._hooks
        hooks.after_backward()
        if hooks.before_update():
            return None
        # Of frozen parameters there are none any more, and others may have been replaced.
        left = [(variable.value.grad, variable) for variable in variables if variable.value.grad is not None]
        done = apply(*map(list, zip(*left))) if left else None
        hooks.after_update()
        return done
