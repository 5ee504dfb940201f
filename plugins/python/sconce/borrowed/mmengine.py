"""MMEngine's hooks as Sconce's."""

import logging

from mmengine.hooks import Hook

from .stand_in import BorrowedHook, StandIn

PACKAGES = ("mmengine",)
#: What of a runner these use is in the stand-in.
KNOWN = {"EarlyStoppingHook", "EmptyCacheHook"}

# The runner's calls at each mount point: in the training, and in a validation.
_TRAINING = {
    "before_run": ("before_run",),
    "after_run": ("after_run",),
    "before_loop": ("before_train",),
    "after_loop": ("after_train",),
    "before_epoch": ("before_train_epoch",),
    "after_epoch": ("after_train_epoch",),
}
_VALIDATION = {"before_epoch": ("before_val_epoch",), "before_loop": ("before_val",), "after_loop": ("after_val",)}
_ITERATIONS = {"before_iter": ("before_train_iter", "before_val_iter"), "after_iter": ("after_train_iter", "after_val_iter")}


def borrow(callback, model, optimizer):
    return _Borrowed(callback, model, optimizer)


class _Borrowed(BorrowedHook):
    def __init__(self, callback, model, optimizer):
        super().__init__(callback)
        whose = type(callback).__name__
        self._loop = StandIn("runner.train_loop", whose, stop_training=False)
        self._runner = StandIn(
            "runner", whose, model=model, train_loop=self._loop, logger=logging.getLogger("mmengine"), rank=0, world_size=1
        )
        for point in {*_TRAINING, *_VALIDATION}:
            # What the base class has is called, too, by the names of its older events.
            names = {*_TRAINING.get(point, ()), *_VALIDATION.get(point, ()), *_older(point)}
            if point == "after_epoch":
                names.add("after_val_epoch")
            if self.overrides(Hook, *names):
                setattr(self, point, self._at(point))
        for point, names in _ITERATIONS.items():
            if self.overrides(Hook, *names, *_older(point)):
                setattr(self, point, self._at_iteration(point, names))

    def _at(self, point):
        def called(task, *_):
            if point == "after_epoch" and task.phase == "val":
                self._call(task, ("after_val_epoch",), dict(task.metrics_of("val")))
                return
            calls = _VALIDATION if task.phase == "val" and point not in ("before_run", "after_run") else _TRAINING
            self._call(task, calls.get(point, ()))

        return called

    def _at_iteration(self, point, names):
        def called(task):
            is_training = task.phase == "train"
            # The counter is of batches that are over.
            batch, outputs = (task.batch, ()) if point == "before_iter" else (task.batch - 1, (None,))
            self._call(task, (names[0 if is_training else 1],), batch, None, *outputs)

        return called

    def _call(self, task, names, *given):
        runner = self._runner
        runner.epoch, runner.iter = task.epoch, task.iteration
        runner.max_epochs = self._loop.max_epochs = task.epochs
        for name in names:
            getattr(self.callback, name)(runner, *given)
        if self._loop.stop_training:
            self._loop.stop_training = False
            # MMEngine looks between epochs.
            task.stop_after_epoch(f"{type(self.callback).__name__} of MMEngine")


def _older(point):
    """The events that MMEngine's base class calls for several phases."""
    return {"before_epoch": ("before_epoch",), "after_epoch": ("after_epoch",), "before_iter": ("before_iter",), "after_iter": ("after_iter",)}.get(
        point, ()
    )
