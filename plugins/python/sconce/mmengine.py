"""Sconce's hooks in MMEngine's `Runner`: one hook that carries them all.

```python
from sconce.mmengine import Hook

runner = mmengine.runner.Runner(…, custom_hooks=[Hook(["csv", {"hook": "ema", "config": {"decay": 0.99}}])])
runner.train()
```
"""


import torch
from mmengine.hooks import Hook as RunnerHook
from mmengine.runner import IterBasedTrainLoop

from ._errors import HookError
from .loops.events import NOW, LoopHooks, Served
from .loops.frameworks import MMENGINE
from .loops.torch_loop import _bytes_of, _samples

__all__ = ["Hook"]

# Keys of the hooks' states in the runner's checkpoints, and of whether the epoch's validation was still to come.
KEY = "sconce"
UNVALIDATED = "sconce_unvalidated"


class Hook(RunnerHook):
    """Carries Sconce's hooks into a `Runner`.

    - `hooks`: entries as in a manifest, or the path of a JSON file that has them under `hooks`
    - `output`: the directory in which hooks write their files; by default the runner's `work_dir`
    - `plan`: more of what hooks plan by: `classes`, `sample_shape`, `metrics`

    While the training runs, `scale_loss`, `backward` and `step` of this runner's `OptimWrapper` call hooks, too. States of hooks are in
    the runner's checkpoints. Hooks that may ask for what the runner can't do are refused when the training begins, by name.
    """

    priority = "NORMAL"

    def __init__(self, hooks, output=None, name=None, seed=0, plugins=(), log=None, plan=None):
        self._options = {"output": output, "name": name, "seed": seed, "plugins": plugins}
        self._entries = hooks
        self._log = log
        self._more = plan or {}
        self._hooks = None
        self._states = None
        self._saving = None
        self._is_unvalidated = False

    # The run.

    def before_train(self, runner):
        if runner.world_size > 1:
            raise HookError("Sconce's hooks in MMEngine run on one process; this runner has several")
        wrapper = runner.optim_wrapper
        if not hasattr(wrapper, "optimizer"):
            raise HookError("hooks see one optimizer; this runner has several")
        loop = runner.train_loop
        self._is_by_iterations = isinstance(loop, IterBasedTrainLoop)
        follows = list(MMENGINE.follows)
        if self._is_by_iterations:
            follows.append("stop")
        if runner.param_schedulers:
            follows = [one for one in follows if one not in ("set_learning_rate", "set_momentum")]
        batches = None if self._is_by_iterations else len(loop.dataloader)
        plan = {"epochs": loop.max_epochs, "accumulate": wrapper._accumulative_counts}
        if self._is_by_iterations:
            batches = loop.max_iters
        if batches is not None:
            plan["batches"] = batches
        if runner.val_loop is not None:
            plan["validation_batches"] = len(runner.val_dataloader)
        self._batches = batches
        model = runner.model
        self._hooks = LoopHooks(
            self._entries,
            model=model,
            optimizer=wrapper.optimizer,
            plan=plan | self._more,
            framework=MMENGINE,
            follows=follows,
            served=Served({"save": self._save_for(runner)}, MMENGINE.reasons, self._log),
            states=self._states,
            **dict(self._options, output=self._options["output"] or runner.work_dir),
        )
        self._states = None
        self._wrap(wrapper)
        if self._is_unvalidated:
            self._is_unvalidated = False
            self._hooks.begin_training()
            runner.val_loop.run()

    def _save_for(self, runner):
        def save(tag, states):
            self._saving = states
            try:
                runner.save_checkpoint(runner.work_dir, f"{tag}.pth", save_param_scheduler=True)
            finally:
                self._saving = None

        return save

    def _wrap(self, wrapper):
        """Puts hooks' calls around three methods of this wrapper, until the training ends."""
        hooks = self._hooks
        scale, backward, step = wrapper.scale_loss, wrapper.backward, wrapper.step

        def scale_loss(loss):
            factor = hooks.after_loss(loss.item())
            scaled = scale(loss)
            return scaled if factor == 1.0 else scaled * factor

        def backward_and_call(loss, **named):
            backward(loss, **named)
            hooks.after_backward()

        def step_unless_skipped(**named):
            if not hooks.before_update():
                step(**named)
                hooks.after_update()

        wrapper.scale_loss, wrapper.backward, wrapper.step = scale_loss, backward_and_call, step_unless_skipped
        self._wrapped = wrapper

    def _unwrap(self):
        for method in ("scale_loss", "backward", "step"):
            self._wrapped.__dict__.pop(method, None)

    def after_train(self, runner):
        hooks, self._hooks = self._hooks, None
        self._unwrap()
        if hooks.is_in_epoch():
            hooks.end_epoch(True)
        hooks.finish()

    # Training.

    def before_train_epoch(self, runner):
        self._end_cycle(runner)
        self._hooks.begin_epoch(self._batches)

    def before_train_iter(self, runner, batch_idx, data_batch=None):
        inputs, targets = data_batch if isinstance(data_batch, (tuple, list)) and len(data_batch) == 2 else (None, None)
        wrapper = runner.optim_wrapper
        # The wrapper counts a batch within its `update_params`, after this.
        done = wrapper._inner_count + 1
        updates = done % wrapper._accumulative_counts == 0 or done == wrapper._max_counts
        self._hooks.begin_batch(_samples(data_batch), updates, inputs, targets)

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
        if self._hooks.end_batch() == NOW and self._is_by_iterations:
            runner.train_loop.stop_training = True

    def after_train_epoch(self, runner):
        self._hooks.end_epoch(True)
        self._is_unvalidated = self._validates(runner)
        if runner.val_loop is None:
            self._end_cycle(runner)

    def _validates(self, runner):
        """Whether the runner validates after this epoch, by the rule of its loop."""
        loop = runner.train_loop
        done = runner.epoch + 1
        is_due = done % loop.val_interval == 0 or done == loop.max_epochs
        return runner.val_loop is not None and done >= loop.val_begin and is_due

    def _end_cycle(self, runner):
        if self._hooks.end_cycle():
            runner.train_loop.stop_training = True

    # Evaluation.

    def before_val_epoch(self, runner):
        if self._hooks is not None:
            self._is_unvalidated = False
            self._hooks.begin_evaluation("val", len(runner.val_dataloader))

    def before_val_iter(self, runner, batch_idx, data_batch=None):
        if self._hooks is not None:
            self._hooks.begin_batch(_samples(data_batch), None)

    def after_val_iter(self, runner, batch_idx, data_batch=None, outputs=None):
        if self._hooks is not None:
            self._hooks.after_loss(None)
            self._hooks.end_batch()

    def after_val_epoch(self, runner, metrics=None):
        if self._hooks is None:
            return
        for name, value in (metrics or {}).items():
            if isinstance(value, (int, float)) or isinstance(value, torch.Tensor) and value.numel() == 1:
                self._hooks.metric(name, float(value))
        self._hooks.end_evaluation()
        if not self._hooks.is_in_epoch():
            self._end_cycle(runner)

    # States.

    def before_save_checkpoint(self, runner, checkpoint):
        states = self._saving or (self._hooks.states() if self._hooks is not None else None)
        if states is not None:
            checkpoint[KEY] = torch.frombuffer(bytearray(states), dtype=torch.uint8)
            # MMEngine's checkpoint of an epoch is from before its validation, and a run that resumes from it does not validate: it is
            # made up for.
            checkpoint[UNVALIDATED] = self._is_unvalidated

    def after_load_checkpoint(self, runner, checkpoint):
        states = checkpoint.get(KEY)
        if states is None:
            return
        if self._hooks is None:
            self._states = _bytes_of(states)
            self._is_unvalidated = bool(checkpoint.get(UNVALIDATED))
        else:
            self._hooks.restore(_bytes_of(states))


