"""Hooks in loops that belong to others: PyTorch's own, Lightning's, Transformers', MMEngine's, Keras'.

`events` calls the hooks event by event, `tensors` says where PyTorch's tensors lie, `modules` calls hooks at a model's modules, and
`torch_loop` has `Hooks`, for a loop that you write. `sconce.lightning`, `sconce.transformers`, `sconce.mmengine` and `sconce.keras` are each a
callback over `events`.
"""

from .events import LoopHooks
from .torch_loop import Hooks, Step

__all__ = ["Hooks", "LoopHooks", "Step"]
