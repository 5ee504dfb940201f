"""Sconce's hooks in Transformers' `Trainer`: one callback that carries them all.

```python
from sconce.transformers import Callback

trainer = transformers.Trainer(model, args, train_dataset=data, callbacks=[Callback(["csv", {"hook": "ema", "config": {"decay": 0.99}}])])
trainer.train()
```
"""

import os
import warnings

import torch
import transformers

from ._errors import HookError, SconceWarning
from .loops.events import NOW, LoopHooks, Served
from .loops.files import write_whole
from .loops.frameworks import TRANSFORMERS
from .loops.torch_loop import _samples

__all__ = ["Callback"]

# The hooks' states, in the directory of each of the trainer's checkpoints.
FILE = "sconce_hooks.bin"


class Callback(transformers.TrainerCallback):
    """Carries Sconce's hooks into a `transformers.Trainer`.

    - `hooks`: entries as in a manifest, or the path of a JSON file that has them under `hooks`
    - `output`: the directory in which hooks write their files; by default the arguments' `output_dir`
    - `plan`: more of what hooks plan by: `classes`, `sample_shape`, `metrics`

    The loss is the one that the model returns. States of hooks are a file in each of the trainer's checkpoints, and read when it resumes.
    Hooks that may ask for what the trainer can't do are refused when it begins, by name.
    """

    def __init__(self, hooks, *, output=None, name=None, seed=0, plugins=(), log=None, plan=None):
        self._options = {"output": output, "name": name, "seed": seed, "plugins": plugins}
        self._entries = hooks
        self._log = log
        self._more = plan or {}
        self._hooks = None
        self._handles = []

    # The run.

    def on_train_begin(self, args, state, control, model=None, optimizer=None, train_dataloader=None, **_):
        if args.world_size > 1:
            raise HookError("Sconce's hooks in Transformers run on one process; this trainer has several")
        if optimizer is None:
            raise HookError("the trainer has no optimizer when it begins: hooks can't see its rates")
        follows = list(TRANSFORMERS.follows)
        if str(args.lr_scheduler_type).rsplit(".", 1)[-1].lower() != "constant":
            follows.remove("set_learning_rate")
        plan = {"epochs": max(1, round(state.num_train_epochs or args.num_train_epochs)), "accumulate": args.gradient_accumulation_steps}
        if train_dataloader is not None and hasattr(train_dataloader, "__len__"):
            plan["batches"] = len(train_dataloader)
        if str(args.eval_strategy).rsplit(".", 1)[-1].lower() != "no":
            # How many, the trainer does not say before it evaluates.
            plan["validation_batches"] = 0
        services = {"validate": lambda: setattr(control, "should_evaluate", True)}
        self._hooks = LoopHooks(
            self._entries,
            model=model,
            optimizer=optimizer,
            plan=plan | self._more,
            framework=TRANSFORMERS,
            follows=follows,
            served=Served(services, TRANSFORMERS.reasons, self._log),
            states=self._saved_states(args, state),
            **dict(self._options, output=self._options["output"] or args.output_dir),
        )
        if args.max_grad_norm and any("clip" in str(entry) for entry in self._entries):
            warnings.warn(
                f"both `max_grad_norm` ({args.max_grad_norm}) and a hook clip gradients; Transformers' comes before the hook's",
                SconceWarning,
                stacklevel=2,
            )
        self._is_evaluating = False
        self._is_batch_open = False
        self._is_accumulating = False
        self._batches = plan.get("batches")
        self._handles = [
            model.register_forward_pre_hook(self._before_forward, with_kwargs=True),
            model.register_forward_hook(self._after_forward, with_kwargs=True),
        ]

    def _saved_states(self, args, state):
        if not state.global_step:
            return None
        path = os.path.join(args.output_dir, f"checkpoint-{state.global_step}", FILE)
        try:
            with open(path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            warnings.warn(f"the trainer resumes, and there are no states of hooks in `{path}`: hooks begin", SconceWarning, stacklevel=2)
            return None

    def on_train_end(self, args, state, control, **_):
        hooks, self._hooks = self._hooks, None
        for handle in self._handles:
            handle.remove()
        self._handles = []
        if hooks is not None:
            if hooks.is_in_epoch():
                hooks.end_epoch(True)
            hooks.finish()

    # Batches: the model's own calls are where they begin.

    def _before_forward(self, model, arguments, named):
        hooks = self._hooks
        if not model.training and not self._is_evaluating:
            self._is_evaluating = True
            hooks.begin_evaluation("val")
        self._loss = None
        hooks.begin_batch(_samples(named) if named else _samples(arguments), None)
        self._is_batch_open = True

    def _after_forward(self, model, arguments, named, outputs):
        hooks = self._hooks
        loss = outputs.get("loss") if hasattr(outputs, "get") else None
        logits = outputs.get("logits") if hasattr(outputs, "get") else outputs
        hooks.after_forward(logits if isinstance(logits, torch.Tensor) else None)
        hooks.after_loss(None if loss is None else loss.item())
        if not model.training:
            self._is_batch_open = False
            hooks.end_batch()

    def on_pre_optimizer_step(self, args, state, control, **_):
        hooks = self._hooks
        hooks.after_backward()
        self._is_skipped = hooks.before_update()
        if self._is_skipped:
            for parameter in hooks.parameters.learned:
                parameter.grad = None

    def on_optimizer_step(self, args, state, control, **_):
        if not self._is_skipped:
            self._hooks.after_update()

    def on_substep_end(self, args, state, control, **_):
        self._hooks.after_backward()
        self._end_batch(control)

    def on_step_end(self, args, state, control, **_):
        self._end_batch(control)

    def _end_batch(self, control):
        self._is_batch_open = False
        if self._hooks.end_batch() == NOW:
            control.should_training_stop = True

    # Epochs and evaluations.

    def on_epoch_begin(self, args, state, control, **_):
        self._hooks.end_cycle()
        self._hooks.begin_epoch(self._batches)

    def on_epoch_end(self, args, state, control, **_):
        self._hooks.end_epoch(True)
        if str(args.eval_strategy).rsplit(".", 1)[-1].lower() != "epoch":
            self._end_cycle(control)

    def _end_cycle(self, control):
        if self._hooks.end_cycle():
            control.should_training_stop = True

    def on_evaluate(self, args, state, control, metrics=None, **_):
        hooks = self._hooks
        if hooks is None or not self._is_evaluating:
            return
        for name, value in (metrics or {}).items():
            is_metric = isinstance(value, (int, float)) and name.startswith("eval_") and name != "eval_loss"
            # What an evaluation has taken differs from run to run, and is no metric of the model's.
            if is_metric and not name.endswith(("_runtime", "_per_second", "_time")):
                hooks.metric(name[len("eval_") :], value)
        hooks.end_evaluation()
        self._is_evaluating = False
        if not hooks.is_in_epoch():
            self._end_cycle(control)

    def on_save(self, args, state, control, **_):
        hooks = self._hooks
        if hooks is None:
            return
        directory = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
        states = hooks.states()
        error = None
        try:
            write_whole(os.path.join(directory, FILE), states)
        except OSError as problem:
            error = problem
        hooks.saved(directory, error)
        if error is not None:
            raise error
