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
    "freeze",
    "set_accumulation",
)
_SHOWN = ("parameters", "gradients", "inputs", "targets", "outputs", "loss", "groups", "ranks")
_COUNTED = "{} counts every batch that its loader gives"
_WHOLE = "{} restores a checkpoint as a whole, before the training"
_OWN = "{}'s checkpoints are its own"
_LOADERS = "{}'s loaders are its own"


class Framework:
    """A loop: `name`, `absent` mount points, `shows`, `follows`, `serves` (by functions of the callback), and `reasons` for the rest."""

    def __init__(self, name, *, absent=(), hidden=(), not_followed=(), serves=(), reasons=None):
        self.name = name
        self.absent = tuple(absent)
        self.shows = tuple(what for what in _SHOWN if what not in hidden)
        self.follows = tuple(request for request in _FOLLOWED if request not in not_followed)
        self.serves = tuple(serves)
        self.reasons = {request: reason.format(name) for request, reason in (reasons or {}).items()}


_FOREIGN = {
    "skip_batch": _COUNTED,
    "load_parameters": _WHOLE,
    "roll_back": _WHOLE,
    "delete_checkpoint": _OWN,
    "copy_checkpoint": _OWN,
    "publish_weights": "{} has one kind of checkpoint",
    "renew_statistics": _LOADERS,
}

PYTORCH = Framework("PyTorch")
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
    not_followed=["skip_batch", "set_accumulation"],
    serves=["save_checkpoint"],
    reasons=_FOREIGN
    | {
        "stop": "{}'s loop by epochs looks between epochs alone",
        "set_accumulation": "{}'s `OptimWrapper` has its number of batches per update",
        "validate": "{} validates at the times that its loop was given",
        "set_learning_rate": "the runner has `param_scheduler`s of its own",
    },
)
ALL = (PYTORCH, LIGHTNING, TRANSFORMERS, MMENGINE)
