"""Callbacks of Lightning, MMEngine and Keras among the hooks of a PyTorch loop: each does there what it does at home.

    python tests/loops/borrowed.py
"""
import os
import pathlib
import tempfile
import warnings

os.environ.setdefault("KERAS_BACKEND", "torch")

import torch

import sconce

PLUGINS = [os.environ["SCONCE_PLUGINS"]] if "SCONCE_PLUGINS" in os.environ else []
# The losses of the validations: the third is not better than the second, nor the fourth.
LOSSES = [1.0, 0.5, 0.6, 0.7, 0.8, 0.9]


class Trained:
    """A loop of so many epochs with a borrowed callback, whose losses are given."""

    def __init__(self, callback, epochs=6, losses=LOSSES, training_losses=None):
        torch.manual_seed(0)
        net = self.net = torch.nn.Linear(4, 2)
        optimizer = self.optimizer = torch.optim.SGD(net.parameters(), 0.1)
        self.rates, self.epochs = [], 0
        loop = {"model": net, "optimizer": optimizer, "epochs": epochs, "batches": 2, "validation_batches": 1, "plugins": PLUGINS}
        with tempfile.TemporaryDirectory() as place, sconce.Hooks([callback], output=place, log=lambda *_: None, **loop) as host:
            for epoch in host.epochs():
                for step in host.training([torch.ones(2, 4)] * 2):
                    loss = step.after_forward(net(step.batch)).square().mean()
                    if training_losses:
                        step._hooks.after_loss(training_losses[epoch])
                        loss.backward()
                    else:
                        step.after_loss(loss).backward()
                    step.update()
                    # A rate that a hook has set reaches the optimizer before it steps.
                    self.rates.append(optimizer.param_groups[0]["lr"])
                for step in host.validation([torch.ones(2, 4)]):
                    step.after_forward(None)
                    step.after_loss(torch.tensor(losses[epoch]))
                self.epochs = epoch + 1
            self.states = host.states() if not host.stopping() else None
            self.reason = host.stop_reason()


def lightning_early_stopping():
    from lightning.pytorch.callbacks import EarlyStopping

    trained = Trained(EarlyStopping("val_loss", patience=2))
    assert trained.epochs == 4 and "EarlyStopping" in trained.reason[0], (trained.epochs, trained.reason)


def lightning_timer():
    from lightning.pytorch.callbacks import Timer

    # No time at all: the first look ends it.
    trained = Trained(Timer({"seconds": 0}, interval="epoch", verbose=False))
    assert trained.epochs <= 1, trained.epochs


def lightning_lambda():
    from lightning.pytorch.callbacks import LambdaCallback

    seen = []
    Trained(
        LambdaCallback(
            on_train_epoch_start=lambda trainer, module: seen.append(("epoch", trainer.current_epoch)),
            on_train_batch_end=lambda trainer, module, outputs, batch, index: seen.append(("batch", index)),
            on_validation_end=lambda trainer, module: seen.append(("validation", round(float(trainer.callback_metrics["val_loss"]), 3))),
        ),
        epochs=1,
    )
    assert seen == [("epoch", 0), ("batch", 0), ("batch", 1), ("validation", 1.0)], seen


def mmengine_early_stopping():
    from mmengine.hooks import EarlyStoppingHook

    trained = Trained(EarlyStoppingHook(monitor="loss", rule="less", patience=2, min_delta=0.0))
    assert trained.epochs == 4, trained.epochs


def mmengine_empty_cache():
    from mmengine.hooks import EmptyCacheHook

    assert Trained(EmptyCacheHook(before_epoch=True, after_iter=True), epochs=2).epochs == 2


def mmengine_own_class():
    from mmengine.hooks import Hook

    seen = []

    class Own(Hook):
        def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
            seen.append((runner.epoch, runner.iter, batch_idx))

    Trained(Own(), epochs=2)
    assert [one[2] for one in seen] == [0, 1, 0, 1], seen


def keras_early_stopping():
    import keras

    callback = keras.callbacks.EarlyStopping("val_loss", patience=2, restore_best_weights=True)
    trained = Trained(callback)
    assert trained.epochs == 4 and callback.stopped_epoch == 3 and callback.best_epoch == 1, (trained.epochs, callback.stopped_epoch)
    best = callback.best_weights
    assert all((one.detach().numpy() == other).all() for one, other in zip(trained.net.state_dict().values(), best))


def keras_reduce_on_plateau():
    import keras

    trained = Trained(keras.callbacks.ReduceLROnPlateau("val_loss", factor=0.5, patience=2))
    # After epochs 3 and 4 without a better loss, and after 5 and 6.
    assert trained.rates == [0.1] * 8 + [0.05] * 4, trained.rates


def keras_schedule():
    import keras

    trained = Trained(keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.1 / 2**epoch), epochs=3)
    assert trained.rates == [0.1, 0.1, 0.05, 0.05, 0.025, 0.025], trained.rates


def keras_csv():
    import keras

    with tempfile.TemporaryDirectory() as place:
        path = pathlib.Path(place) / "log.csv"
        Trained(keras.callbacks.CSVLogger(str(path)), epochs=2)
        lines = path.read_text().splitlines()
    assert lines[0].split(",")[0] == "epoch" and "val_loss" in lines[0] and len(lines) == 3, lines


def keras_history():
    import keras

    history = keras.callbacks.History()
    Trained(history, epochs=3)
    assert history.epoch == [0, 1, 2] and [round(one, 3) for one in history.history["val_loss"]] == LOSSES[:3], history.history


def keras_terminate_on_nan():
    import keras

    trained = Trained(keras.callbacks.TerminateOnNaN(), training_losses=[1.0, float("nan"), 1.0, 1.0, 1.0, 1.0])
    assert len(trained.rates) == 3, trained.rates


def keras_lambda():
    import keras

    seen = []
    Trained(keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append((epoch, round(logs["val_loss"], 3)))), epochs=2)
    assert seen == [(0, 1.0), (1, 0.5)], seen


def others_are_refused():
    import keras
    from lightning.pytorch.callbacks import Callback, ModelCheckpoint

    for callback, words in ((ModelCheckpoint(), "`ModelCheckpoint` can't be borrowed"), (keras.callbacks.BackupAndRestore("x"), "`BackupAndRestore` can't")):
        try:
            Trained(callback)
        except sconce.HookError as error:
            assert words in str(error), error
        else:
            raise AssertionError(words)

    class Asks(Callback):
        def on_train_epoch_end(self, trainer, module):
            trainer.datamodule

    try:
        Trained(Asks())
    except sconce.Error as error:
        assert "`Asks` asks for `trainer.datamodule`" in str(error), error
    else:
        raise AssertionError("what a stand-in has not is named")


def main(_=()):
    warnings.simplefilter("ignore")
    tests = [value for value in list(globals().values()) if callable(value) and getattr(value, "__module__", "") == __name__]
    for test in tests:
        if test is main or isinstance(test, type):
            continue
        test()
        print(f"ok: borrowed: {test.__name__.replace('_', ' ')}")


if __name__ == "__main__":
    main()
