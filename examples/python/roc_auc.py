"""Publishes the area under the ROC curve, by scikit-learn, as a metric that other hooks can monitor."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import sconce
from sklearn.metrics import roc_auc_score


class RocAuc(sconce.Hook):
    publishes = ["roc_auc"]
    asks = []
    reads = ["outputs", "targets"]

    @dataclass
    class Config:
        average: Literal["macro", "weighted"] = "macro"

    def before_epoch(self, task):
        self.outputs, self.targets = [], []

    def after_iter(self, task):
        if task.phase != "train":
            # Copies: the run reuses the memory of a batch.
            self.outputs.append(task.outputs().copy())
            self.targets.append(task.targets().copy())

    def after_epoch(self, task):
        if task.phase == "train":
            return
        logits = np.concatenate(self.outputs).astype(np.float64)
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        scores = odds / odds.sum(axis=1, keepdims=True)
        targets = np.concatenate(self.targets)
        if len(np.unique(targets)) == scores.shape[1]:
            area = roc_auc_score(targets, scores, multi_class="ovr", average=self.config.average)
            task.publish_metric("roc_auc", area)
