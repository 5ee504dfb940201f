"""Sconce's hooks in Lightning: one callback that carries them all.

```python
import lightning
from sconce.lightning import Callback

callback = Callback(["csv", {"hook": "ema", "config": {"decay": 0.99}}], output="runs/a")
lightning.Trainer(max_epochs=3, callbacks=[callback]).fit(model, loader)
```
"""

import warnings

try:
    import lightning.pytorch as pl
except ImportError:
    import pytorch_lightning as pl

import torch

from ._errors import HookError, SconceWarning
from .loops.events import NOW, LoopHooks, Served
from .loops.frameworks import LIGHTNING
from .loops.torch_loop import _samples

__all__ = ["Callback"]

class Callback(pl.Callback):
    """Carries Sconce's hooks into a `lightning.Trainer`.

    - `hooks`: entries as in a manifest, or the path of a JSON file that has them under `hooks`
    - `output`: the directory in which hooks write their files; by default the trainer's `default_root_dir`
    - `plan`: more of what hooks plan by: `classes`, `sample_shape`, `metrics`

    States of hooks are in Lightning's checkpoints. Hooks that may ask for what Lightning can't do are refused at the start of `fit`, by
    name.
    """

    def __init__(self, hooks, *, output=None, name=None, seed=0, plugins=(), log=None, plan=None):
        self._options = {"output": output, "name": name, "seed": seed, "plugins": plugins}
        self._entries = hooks
        self._log = log
        self._more = plan or {}
        self._hooks = None
        self._states = None
        self._saving = None
        self._is_sanity_check = False
        self._removed = []

    @property
    def state_key(self):
        return f"sconce:{self._options['name'] or 'hooks'}"

    # The run.

    def setup(self, trainer, pl_module, stage):
        if stage != "fit" or self._hooks is not None:
            return
        if trainer.world_size > 1:
            raise HookError("Sconce's hooks in Lightning run on one process; this trainer has several")

    def on_fit_start(self, trainer, pl_module):
        if not pl_module.automatic_optimization:
            raise HookError(
                "the module optimises by itself (`automatic_optimization = False`): where its updates are, Lightning does not say"
            )
        optimizers = trainer.optimizers
        if len(optimizers) != 1:
            raise HookError(f"hooks see one optimizer, the module has {len(optimizers)}")
        follows = list(LIGHTNING.follows)
        if trainer.lr_scheduler_configs:
            follows = [one for one in follows if one not in ("set_learning_rate", "set_momentum")]
        output = self._options["output"] or trainer.default_root_dir
        batches = trainer.num_training_batches
        plan = {
            "epochs": trainer.max_epochs if trainer.max_epochs and trainer.max_epochs > 0 else 1,
            "accumulate": trainer.accumulate_grad_batches,
        }
        if isinstance(batches, int):
            plan["batches"] = batches
        if trainer.enable_validation:
            counts = trainer.num_val_batches
            plan["validation_batches"] = sum(counts) if all(isinstance(count, int) for count in counts) else 0
        served = Served({"save": self._save_for(trainer)}, LIGHTNING.reasons, self._log)
        self._hooks = LoopHooks(
            self._entries,
            model=pl_module,
            optimizer=optimizers[0],
            plan=plan | self._more,
            framework=LIGHTNING,
            follows=follows,
            served=served,
            states=self._states,
            **dict(self._options, output=output),
        )
        self._states = None
        if trainer.gradient_clip_val and any("clip" in str(entry) for entry in self._entries):
            warnings.warn(
                "both `gradient_clip_val` and a hook clip gradients; Lightning's comes after the hook's",
                SconceWarning,
                stacklevel=2,
            )
        # Lightning calls what is callable, and each call costs it microseconds.
        for name in ("on_before_zero_grad", "on_after_backward"):
            if name == "on_after_backward" and self._hooks.listens("after_backward"):
                continue
            setattr(self, name, None)
            self._removed.append(name)
        self._watch_updates(optimizers[0])

    def _save_for(self, trainer):
        def save(tag, states):
            self._saving = states
            try:
                trainer.save_checkpoint(f"{trainer.default_root_dir}/{tag}.ckpt")
            finally:
                self._saving = None

        return save

    def _watch_updates(self, optimizer):
        """After the optimizer's own step: with a scaler that skips it, none has happened."""
        def stepped(*_):
            if self._is_update_open:
                self._is_update_open = False
                self._hooks.after_update()

        # Lightning's wrapper hands its step on to the optimizer that it wraps.
        optimizer = getattr(optimizer, "optimizer", optimizer)
        self._handle = optimizer.register_step_post_hook(stepped)
        self._is_update_open = False

    def teardown(self, trainer, pl_module, stage):
        if self._hooks is not None and stage == "fit":
            self._handle.remove()
            for name in self._removed:
                self.__dict__.pop(name, None)
            self._removed = []
            hooks, self._hooks = self._hooks, None
            hooks.finish()

    def on_exception(self, trainer, pl_module, exception):
        if self._hooks is not None:
            hooks, self._hooks = self._hooks, None
            self._handle.remove()
            hooks.fail(f"{type(exception).__name__}: {exception}")

    # Training.

    def on_train_epoch_start(self, trainer, pl_module):
        self._hooks.end_cycle()
        self._stop(trainer)
        batches = trainer.num_training_batches
        self._hooks.begin_epoch(batches if isinstance(batches, int) else None)

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        hooks = self._hooks
        inputs, targets = batch if isinstance(batch, (tuple, list)) and len(batch) == 2 else (None, None)
        loop = trainer.fit_loop.epoch_loop
        updates = not loop._should_accumulate() if hasattr(loop, "_should_accumulate") else None
        self._has_loss = False
        self._has_backward = False
        hooks.begin_batch(_samples(batch), updates, inputs, targets)
        return None

    def on_before_backward(self, trainer, pl_module, loss):
        accumulated = trainer.accumulate_grad_batches
        self._has_loss = True
        self._hooks.after_loss(loss.item() * accumulated)

    def on_after_backward(self, trainer, pl_module):
        self._backward()

    def _backward(self):
        if not self._has_backward:
            self._has_backward = True
            self._hooks.after_backward()

    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        self._backward()
        if self._hooks.before_update():
            for parameter in self._hooks.parameters.learned:
                parameter.grad = None
        else:
            self._is_update_open = True

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        hooks = self._hooks
        if self._has_loss:
            self._backward()
        if hooks.end_batch() == NOW:
            trainer.should_stop = True

    def on_train_epoch_end(self, trainer, pl_module):
        # Validation comes before this, within Lightning's epoch; Sconce's epoch has ended before it.
        self._end_epoch(trainer)
        self._hooks.end_cycle()
        self._stop(trainer)

    def _end_epoch(self, trainer):
        if self._hooks.is_in_epoch():
            self._hooks.end_epoch(True)

    def _stop(self, trainer):
        if self._hooks.stopping():
            trainer.should_stop = True

    # Evaluation.

    def on_sanity_check_start(self, trainer, pl_module):
        self._is_sanity_check = True

    def on_sanity_check_end(self, trainer, pl_module):
        self._is_sanity_check = False

    def on_validation_start(self, trainer, pl_module):
        self._evaluated = self._hooks is not None and not self._is_sanity_check
        if not self._evaluated:
            return
        if trainer.fit_loop.epoch_loop.batch_progress.is_last_batch:
            self._end_epoch(trainer)
        batches = trainer.num_val_batches
        count = sum(batches) if all(isinstance(one, int) for one in batches) else None
        self._hooks.begin_evaluation("val", count)

    def on_validation_batch_start(self, trainer, pl_module, batch, batch_idx, dataloader_idx=0):
        if self._evaluated:
            inputs, targets = batch if isinstance(batch, (tuple, list)) and len(batch) == 2 else (None, None)
            self._hooks.begin_batch(_samples(batch), None, inputs, targets)

    def on_validation_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, dataloader_idx=0):
        if not self._evaluated:
            return
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        self._hooks.after_loss(loss.item() if isinstance(loss, torch.Tensor) and loss.numel() == 1 else None)
        self._hooks.end_batch()

    def on_validation_end(self, trainer, pl_module):
        if not self._evaluated:
            return
        for name, value in trainer.callback_metrics.items():
            if isinstance(value, torch.Tensor) and value.numel() == 1 and name.startswith(("val_", "val/")):
                self._hooks.metric(name[4:], value.item())
        self._hooks.end_evaluation()

    # States.

    def state_dict(self):
        # Asked for by a hook, they have been collected.
        states = self._saving or (self._hooks.states() if self._hooks is not None else self._states)
        if states is None:
            # Lightning leaves a state out that is empty.
            return {"states": torch.zeros(0, dtype=torch.uint8)}
        return {"states": torch.frombuffer(bytearray(states), dtype=torch.uint8)}

    def load_state_dict(self, state_dict):
        states = state_dict["states"].numpy().tobytes()
        if not states:
            return
        if self._hooks is None:
            self._states = states
        else:
            self._hooks.restore(states)
