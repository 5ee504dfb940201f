"""Lightning's callbacks as hooks."""

import torch

try:
    from lightning.pytorch.callbacks import Callback
    from lightning.pytorch.trainer.states import RunningStage, TrainerFn
except ImportError:
    from pytorch_lightning.callbacks import Callback
    from pytorch_lightning.trainer.states import RunningStage, TrainerFn

from .stand_in import BorrowedHook, OneProcess, StandIn, metrics

PACKAGES = ("lightning", "pytorch_lightning")
#: What of a trainer these use is in the stand-in.
KNOWN = {"EarlyStopping", "Timer", "LambdaCallback"}

# Lightning's calls at each mount point, in their order: in the training, and in a validation.
_TRAINING = {
    "before_loop": ("on_fit_start", "on_train_start"),
    "before_epoch": ("on_train_epoch_start",),
    "after_cycle": ("on_train_epoch_end",),
    "after_loop": ("on_train_end", "on_fit_end"),
}
_VALIDATION = {
    "before_epoch": ("on_validation_start", "on_validation_epoch_start"),
    "after_epoch": ("on_validation_epoch_end", "on_validation_end"),
}


def borrow(callback, model, optimizer):
    return _Borrowed(callback, model, optimizer)


class _Borrowed(BorrowedHook):
    def __init__(self, callback, model, optimizer):
        super().__init__(callback)
        whose = type(callback).__name__
        self._model = model
        self._trainer = StandIn(
            "trainer",
            whose,
            callback_metrics={},
            should_stop=False,
            fast_dev_run=False,
            sanity_checking=False,
            is_global_zero=True,
            world_size=1,
            val_check_interval=1.0,
            check_val_every_n_epoch=1,
            strategy=OneProcess(),
            optimizers=[optimizer],
            lr_scheduler_configs=[],
            loggers=[],
            logger=None,
            state=StandIn("trainer.state", whose, fn=TrainerFn.FITTING, stage=RunningStage.TRAINING),
        )
        for point in {*_TRAINING, *_VALIDATION}:
            if self.overrides(Callback, *_TRAINING.get(point, ()), *_VALIDATION.get(point, ())):
                setattr(self, point, self._at(point))
        if self.overrides(Callback, "on_train_batch_start"):
            self.before_iter = self._before_iter
        if self.overrides(Callback, "on_train_batch_end"):
            self.after_iter = self._after_iter
        self._is_set_up = False

    def _at(self, point):
        def called(task):
            calls = {"train": _TRAINING, "val": _VALIDATION}.get(task.phase, {})
            if calls.get(point):
                self._call(task, calls[point])

        return called

    def _before_iter(self, task):
        if task.phase == "train":
            self._call(task, ("on_train_batch_start",), None, task.batch)

    def _after_iter(self, task):
        if task.phase == "train":
            outputs = {"loss": torch.tensor(task.loss)} if task.loss is not None else None
            self._call(task, ("on_train_batch_end",), outputs, None, task.batch - 1)

    def _call(self, task, names, *given):
        trainer = self._trainer
        trainer.current_epoch, trainer.global_step = task.epoch, task.update
        trainer.max_epochs = task.epochs
        trainer.callback_metrics = {name: torch.tensor(value) for name, value in metrics(task).items()}
        if not self._is_set_up:
            self._is_set_up = True
            self.callback.setup(trainer, self._model, "fit")
        for name in names:
            getattr(self.callback, name)(trainer, self._model, *given)
        if trainer.should_stop:
            trainer.should_stop = False
            task.stop(f"{type(self.callback).__name__} of Lightning")

    def state_dict(self):
        return self.callback.state_dict()

    def load_state_dict(self, state):
        self.callback.load_state_dict(state)
