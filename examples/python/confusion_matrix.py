"""Draws the confusion matrix of each validation, by matplotlib."""

import matplotlib
import numpy as np
import sconce

matplotlib.use("Agg")  # Without a window.
from matplotlib import pyplot  # noqa: E402


class ConfusionMatrix(sconce.Hook):
    asks = []
    reads = ["outputs", "targets"]

    def before_epoch(self, task):
        if task.phase == "val":
            classes = task.facts["classes"]
            self.names = classes
            self.counts = np.zeros((len(classes), len(classes)), dtype=int)

    def after_iter(self, task):
        if task.phase == "val":
            predicted = np.asarray(task.outputs()).argmax(axis=1)
            np.add.at(self.counts, (np.asarray(task.targets()), predicted), 1)

    def after_epoch(self, task):
        if task.phase != "val":
            return
        figure, axes = pyplot.subplots(figsize=(6, 6))
        axes.imshow(self.counts, cmap="Blues")
        axes.set_xticks(range(len(self.names)), self.names, rotation=90)
        axes.set_yticks(range(len(self.names)), self.names)
        axes.set_xlabel("predicted")
        axes.set_ylabel("true")
        directory = self.setup.run_directory / "confusion"
        directory.mkdir(exist_ok=True)
        figure.savefig(directory / f"epoch-{task.epoch}.png", dpi=100, bbox_inches="tight")
        pyplot.close(figure)
