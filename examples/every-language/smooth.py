"""A smoothed training loss, as a metric."""

from dataclasses import dataclass

import sconce


class Smooth(sconce.Hook):
    asks = []
    reads = ["loss"]

    """Publishes the exponential moving average of the batches' losses."""

    @dataclass
    class Config:
        decay: float = 0.9

    def __init__(self, config, setup):
        super().__init__(config, setup)
        self.mean = None

    def after_iter(self, task):
        if task.phase != "train":
            return
        decay = self.config.decay if self.mean is not None else 0.0
        self.mean = decay * (self.mean or 0.0) + (1 - decay) * task.loss
        task.publish_metric("smooth_loss", self.mean)

    def state_dict(self):
        return {"mean": self.mean}

    def load_state_dict(self, state):
        self.mean = state["mean"]
