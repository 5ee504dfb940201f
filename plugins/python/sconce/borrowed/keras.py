"""Keras' callbacks as hooks."""

from keras.callbacks import Callback

from .stand_in import BorrowedHook, StandIn, metrics

PACKAGES = ("keras",)
#: What of a model these use is in the stand-in.
KNOWN = {
    "CSVLogger",
    "EarlyStopping",
    "History",
    "LambdaCallback",
    "LearningRateScheduler",
    "ReduceLROnPlateau",
    "TerminateOnNaN",
}


def borrow(callback, model, optimizer):
    return _Borrowed(callback, model, optimizer)


class _Borrowed(BorrowedHook):
    def __init__(self, callback, model, optimizer):
        super().__init__(callback)
        whose = type(callback).__name__
        self._optimizer = StandIn("model.optimizer", whose, learning_rate=0.0)
        self._model = StandIn(
            "model",
            whose,
            optimizer=self._optimizer,
            stop_training=False,
            get_weights=lambda: [one.detach().cpu().numpy().copy() for one in model.state_dict().values()],
            set_weights=lambda weights: _set_weights(model, weights),
            jax_state_sync=lambda: None,
        )
        callback.set_model(self._model)
        # Keras' callbacks set methods on the instance, too: all are called, at batches those that are somebody's own.
        if self.overrides(Callback, "on_train_batch_begin", "on_batch_begin"):
            self.before_iter = self._before_iter
        if self.overrides(Callback, "on_train_batch_end", "on_batch_end"):
            self.after_iter = self._after_iter

    def before_loop(self, task):
        if task.phase == "train":
            self.callback.set_params({"epochs": task.epochs, "steps": task.batches or None, "verbose": 0})
            self._call(task, "on_train_begin")

    def before_epoch(self, task):
        if task.phase == "train":
            self._call(task, "on_epoch_begin", task.epoch)

    def _before_iter(self, task):
        if task.phase == "train":
            self._call(task, "on_train_batch_begin", task.batch)

    def _after_iter(self, task):
        if task.phase == "train":
            logs = {} if task.loss is None else {"loss": task.loss}
            self._call(task, "on_train_batch_end", task.batch - 1, logs)

    def after_cycle(self, task):
        # The counter is of epochs that are over.
        self._call(task, "on_epoch_end", task.epoch - 1, metrics(task))

    def after_loop(self, task):
        if task.phase == "train":
            self._call(task, "on_train_end")

    def _call(self, task, name, *given):
        before = self._optimizer.learning_rate = task.learning_rate
        getattr(self.callback, name)(*given)
        if self._optimizer.learning_rate != before:
            task.set_learning_rate(float(self._optimizer.learning_rate))
        if self._model.stop_training:
            self._model.stop_training = False
            task.stop(f"{type(self.callback).__name__} of Keras")


def _set_weights(model, weights):
    import torch

    with torch.no_grad():
        for one, value in zip(model.state_dict().values(), weights):
            one.copy_(torch.as_tensor(value))
