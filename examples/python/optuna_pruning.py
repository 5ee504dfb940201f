"""Reports a run to an Optuna study after each epoch, and stops it where the study prunes it.

Each run is one trial. Its hyper-parameters are those of the manifest; start several runs with `--set`, one after another
or side by side, with the same `storage`.
"""

from dataclasses import dataclass, field
from typing import Dict

import optuna
import sconce
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState


class Pruning(sconce.Hook):
    asks = ["stop_after_epoch"]
    reads = []

    @dataclass
    class Config:
        storage: str = "sqlite:///optuna.db"
        study: str = "sconce"
        monitor: str = "accuracy"
        startup_trials: int = 3
        #: Values to record with the trial, such as the learning rate of this run.
        parameters: Dict[str, float] = field(default_factory=dict)

    def before_run(self, task):
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(
            storage=self.config.storage,
            study_name=self.config.study,
            direction="maximize",
            pruner=optuna.pruners.MedianPruner(n_startup_trials=self.config.startup_trials, n_warmup_steps=1),
            load_if_exists=True,
        )
        ranges = {name: FloatDistribution(value, value) for name, value in self.config.parameters.items()}
        self.study, self.trial, self.is_pruned = study, study.ask(ranges), False

    def after_cycle(self, task):
        value = task.metric_of("val", self.config.monitor)
        if value is None:
            raise sconce.HookError(f"the validation has no metric `{self.config.monitor}`")
        self.value = value
        self.trial.report(value, task.epoch)
        if self.trial.should_prune():
            self.is_pruned = True
            task.stop_after_epoch("pruned by Optuna")

    def after_run(self, task, outcome):
        if self.is_pruned:
            self.study.tell(self.trial, state=TrialState.PRUNED)
        elif outcome.kind == "failed":
            self.study.tell(self.trial, state=TrialState.FAIL)
        else:
            self.study.tell(self.trial, self.value)
