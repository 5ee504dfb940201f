"""What each loop has for hooks: the mount points that it never comes by, what hooks can see of it, and the requests that it serves.

One table for the callbacks, which are checked against it at their start, and for the page that shows which hooks work where.
"""

#: Served in every loop that calls its hooks by itself.
_FOLLOWED = (
    "stop",
    "stop_after_epoch",
    "skip_batch",
    "skip_update",
    "scale_loss",
    "swap_parameters",
    "set_learning_rate",
    "set_weight_decay",
    "set_momentum",
    "freeze",
    "set_accumulation",
)
_SHOWN = ("parameters", "gradients", "inputs", "targets", "outputs", "loss", "groups", "ranks")
_COUNTED = "{} counts every batch that its loader gives"
_WHOLE = "{} restores a checkpoint as a whole, before the training"
_OWN = "{}'s checkpoints are its own"
_LOADERS = "{}'s loaders are its own"
_TEXT = "{} has tokenizers of its own"


class Framework:
    """A loop: `name`, `absent` mount points, `shows`, `follows`, `serves` (by functions of the callback), and `reasons` for the rest;
    `has_modules`: whether hooks are called after the forward pass of each of the model's modules."""

    def __init__(self, name, *, absent=(), hidden=(), not_followed=(), serves=(), reasons=None, has_modules=True):
        self.name = name
        self.absent = tuple(absent)
        shown = [what for what in _SHOWN if what not in hidden]
        if {"inputs", "targets", "outputs"} <= set(shown):
            shown.append("batch")
        self.shows = tuple(shown)
        self.follows = tuple(request for request in _FOLLOWED if request not in not_followed)
        self.serves = tuple(serves)
        self.has_modules = has_modules
        self.reasons = {request: reason.format(name) for request, reason in (reasons or {}).items()}


_FOREIGN = {
    "skip_batch": _COUNTED,
    "load_parameters": _WHOLE,
    "roll_back": _WHOLE,
    "delete_checkpoint": _OWN,
    "copy_checkpoint": _OWN,
    "publish_weights": "{} has one kind of checkpoint",
    "renew_statistics": _LOADERS,
    "generate": _TEXT,
    "set_momentum": "the optimizer has no momentum that can be set, or the loop a schedule of its own",
}

PYTORCH = Framework("PyTorch", reasons={"set_momentum": "the optimizer has no momentum that can be set"})
LIGHTNING = Framework(
    "Lightning",
    absent=["after_forward"],
    hidden=["outputs"],
    not_followed=["skip_batch", "scale_loss"],
    serves=["save_checkpoint"],
    reasons=_FOREIGN
    | {
        "scale_loss": "{} steps by the loss that the module returns",
        "validate": "{} validates at the times that its trainer was given",
        "set_learning_rate": "the module has a schedule of its own",
    },
)
TRANSFORMERS = Framework(
    "Transformers",
    hidden=["inputs", "targets"],
    not_followed=["skip_batch", "scale_loss", "set_accumulation"],
    serves=["validate"],
    reasons=_FOREIGN
    | {
        "scale_loss": "{} takes the loss from the model",
        "set_accumulation": "{} reads the number of batches per update once",
        "save_checkpoint": "{} saves after the step, under a name of its own",
        "set_learning_rate": 'the trainer has a schedule of its own: `lr_scheduler_type="constant"` leaves rates to hooks',
    },
)
MMENGINE = Framework(
    "MMEngine",
    absent=["after_forward"],
    hidden=["outputs"],
    not_followed=["stop", "skip_batch", "set_accumulation"],
    serves=["save_checkpoint"],
    reasons=_FOREIGN
    | {
        "stop": "{}'s loop by epochs looks between epochs alone",
        "set_accumulation": "{}'s `OptimWrapper` has its number of batches per update",
        "validate": "{} validates at the times that its loop was given",
        "set_learning_rate": "the runner has `param_scheduler`s of its own",
    },
)
_KERAS = {
    "save_checkpoint": "{} saves by callbacks of its own",
    "validate": "{} validates at the times that `fit` was given",
    "set_accumulation": "{}'s optimizer has its number of batches per update",
    "set_momentum": "{}'s optimizers keep their momentum as a constant",
    "set_learning_rate": "the optimizer has a schedule of its own",
}
KERAS = Framework(
    "Keras",
    not_followed=["skip_batch", "set_accumulation", "set_momentum"],
    reasons=_FOREIGN | _KERAS,
    # Its layers call each other past the hooks of PyTorch's modules.
    has_modules=False,
)
_COMPILED = "with the backend jax a step is one compiled function"
KERAS_JAX = Framework(
    "Keras (jax)",
    absent=["after_forward", "after_backward", "before_update", "after_update"],
    hidden=["parameters", "gradients", "inputs", "targets", "outputs", "loss"],
    not_followed=[request for request in _FOLLOWED if request not in ("stop", "stop_after_epoch")],
    reasons=_FOREIGN | {request: _COMPILED for request in _FOLLOWED} | {name: _KERAS[name] for name in ("save_checkpoint", "validate")},
    has_modules=False,
)
ALL = (PYTORCH, LIGHTNING, TRANSFORMERS, MMENGINE, KERAS, KERAS_JAX)
