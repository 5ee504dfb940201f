"""Logs a run to Weights & Biases, without a network: `wandb sync` uploads the files later."""

from dataclasses import dataclass

import sconce
import wandb


class Wandb(sconce.Hook):
    asks = []
    reads = ["loss", "groups"]

    @dataclass
    class Config:
        project: str = "sconce"
        every: int = 10

    def before_run(self, task):
        facts = task.facts
        self.run = wandb.init(
            project=self.config.project,
            name=facts["run"],
            dir=self.setup.run_directory,
            config=self.setup.manifest,
            mode="offline",
        )

    def after_iter(self, task):
        if task.phase == "train" and task.iteration % self.config.every == 0:
            self.run.log({"train/loss": task.loss, "learning_rate": task.learning_rate}, step=task.iteration)

    def after_cycle(self, task):
        metrics = {f"val/{name}": value for name, value in task.metrics_of("val").items()}
        self.run.log({"epoch": task.epoch, **metrics}, step=task.iteration)

    def after_run(self, task, outcome):
        self.run.finish(exit_code=1 if outcome.kind == "failed" else 0)
