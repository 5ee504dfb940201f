"""Training and predicting in this process: what `sconce.train` and its relatives are made of.

The code that trains is in the library that `installation` finds; it is opened at the first use. `arguments` makes a manifest of what
users pass, with `data` for arrays and frames and `objects` for hooks; `train` waits for a run, shown by `progress`, and `run` is what
comes of it, with its `history`.
"""

from .compare import compare
from .run import Prediction, Run, load
from .train import check, train

__all__ = ["Prediction", "Run", "check", "compare", "load", "train"]
