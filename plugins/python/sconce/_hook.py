"""The base class of hooks, and what is known when one is created."""

import json
from pathlib import Path

try:
    from ._native import Task as _Native  # type: ignore[import-not-found]
except ImportError:  # Outside the host.
    _Native = None

#: The mount points, in the order of their numbers.
POINTS = (
    "before_run",
    "after_run",
    "before_loop",
    "after_loop",
    "before_epoch",
    "after_epoch",
    "after_cycle",
    "before_iter",
    "after_iter",
    "after_forward",
    "after_loss",
    "after_backward",
    "before_update",
    "after_update",
    "module_forward",
    "module_backward",
    "before_save_checkpoint",
    "after_save_checkpoint",
    "after_load_checkpoint",
    "on_exception",
    "epoch_profile",
)


class Hook:
    """Base class of hooks.

    Write the methods you need, named as the mount points (`POINTS`); the host never calls the others, and they cost
    nothing. All get the `task`; `module_*`, `*_checkpoint`, `epoch_profile`, `on_exception` and `after_run` get a second
    argument. An exception in any of them is reported as the hook's error.

    `Config` is a dataclass, or a JSON Schema as a dictionary: what the manifest has under `config`. Without it, `config`
    is the dictionary as it is.

    `publishes` names the metrics that the hook publishes, such as `["worst_f1"]`, or families of them, such as
    `["class/*"]`: other hooks can then monitor them. Names that depend on the configuration are set in `__init__`.

    `asks` names the requests that the hook makes, such as `["stop", "save_checkpoint"]`, and `reads` what of the loop it
    reads or changes: "parameters", "gradients", "batch", "inputs", "targets", "outputs", "sample_indices", "loss", "groups",
    "ranks". A loop other than Sconce's own may lack some, and refuses the hook before the run. None: not known.
    """

    Config = None
    publishes = ()
    asks = None
    reads = None

    def __init__(self, config=None, setup=None):
        self.config = config
        self.setup = setup

    def state_dict(self):
        """What a checkpoint stores for this hook: None, texts, numbers, lists, dictionaries, bytes and arrays."""
        return None

    def load_state_dict(self, state):
        """Restores what `state_dict` returned. Tuples come back as lists."""


class Setup:
    """The hook's entry in the manifest and what is known of the run when the hook is created."""

    def __init__(self, facts):
        #: Unique name of the manifest's entry.
        self.name = facts["name"]
        #: The run's directory, absolute. It exists.
        self.run_directory = Path(facts["run_directory"])
        #: The run's seed.
        self.seed = facts["seed"]
        #: Whether the run resumes from a checkpoint.
        self.is_resumed = facts["is_resumed"]
        #: Name and version of the host.
        self.host_version = facts["host_version"]
        self._manifest = facts["manifest"]
        self._plan = facts["plan"]

    @property
    def manifest(self):
        """The resolved manifest, as a dictionary. Parses JSON: ask once."""
        return json.loads(self._manifest)

    @property
    def plan(self):
        """Epochs, phases, parameters of the run to come, as a dictionary, or None. Parses JSON: ask once."""
        return None if self._plan is None else json.loads(self._plan)

    def info(self, message):
        """Shows a message to the user; for the time of `__init__`."""
        _Native._log(_NATIVE_TASK, 2, str(message))

    def warn(self, message):
        """Shows a warning to the user; for the time of `__init__`."""
        _Native._log(_NATIVE_TASK, 1, str(message))

    def claim(self, what):
        """Claims something that only one hook of a run can have; an error names the other one."""
        _Native._claim(_NATIVE_TASK, what)


_NATIVE_TASK = None if _Native is None else _Native()
