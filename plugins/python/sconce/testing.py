"""A fake run for tests of hooks: `FakeTask` answers from what the test gives, and records what the hook asks for."""

from pathlib import Path

from ._task import Module, Task


class FakeTask:
    """A task with these facts; methods that request something record it in `asked`.

    Tensors are arrays, by name: `parameters`, `gradients` and `batch` (`inputs`, `targets`, `outputs`). Those of methods
    that end in `_mut` are the arrays themselves, the others read-only views.
    """

    def __init__(self, *, metrics=None, parameters=None, gradients=None, batch=None, facts=None, **moment):
        self.epoch = self.iteration = self.update = self.batch = self.samples = self.ordinal = 0
        self.epochs = self.batches = self.batch_size = 1
        self.loss, self.learning_rate, self.phase, self.stream, self.point = None, 0.01, "train", "train", None
        self.elapsed, self.remaining, self.screen_columns = 0.0, None, None
        self.is_whole, self.is_update_due = True, True
        self.rank, self.world_size, self.is_repeated = 0, 1, False
        self.is_initial_validation = self.is_resumed = self.is_new_to_run = False
        for name, value in moment.items():
            if not hasattr(self, name):
                raise TypeError(f"a task has no `{name}`")
            setattr(self, name, value)
        self.facts = {"run": "test", "classes": [], "modules": [], "seed": 0, **(facts or {})}
        self.metrics = metrics or {}
        #: What the hook has requested: tuples of a method's name and its arguments; those by name are a dictionary at the end.
        self.asked = []
        #: What it has logged: pairs of level and text.
        self.messages = []
        #: Metrics and values that it has published, by name.
        self.published_metrics, self.values = {}, {}
        self._tensors = {"parameter": parameters or {}, "gradient": gradients or {}, "variable": batch or {}}

    def __getattr__(self, name):
        # Requests: whatever else a task has, as a method that records its call.
        if name.startswith("_") or not (hasattr(Task, name) or name in _REQUESTS):
            raise AttributeError(f"a task has no `{name}`")
        return lambda *arguments, **named: self.asked.append((name, *arguments, named) if named else (name, *arguments))

    def info(self, message):
        self.messages.append(("info", message))

    def warn(self, message):
        self.messages.append(("warn", message))

    def debug(self, message):
        self.messages.append(("debug", message))

    def set_status(self, text):
        self.messages.append(("status", text))

    def metric(self, name):
        return self.metric_of(self.phase, name)

    def metric_of(self, phase, name):
        return self.metrics.get(phase, {}).get(name)

    def metrics_of(self, phase):
        return dict(self.metrics.get(phase, {}))

    def publish_metric(self, name, value):
        self.published_metrics[name] = float(value)

    def learning_rates(self):
        return {"default": self.learning_rate}

    def weight_decays(self):
        return {"default": 0.0}

    def gather(self, value):
        """This rank's value alone; a test of several ranks replaces this method."""
        return [value]

    def publish(self, name, value, keep):
        self.values[name] = value

    def published(self, name):
        return self.values.get(name)

    def generate(self, prompts, /, **options):
        """Texts as if the model wrote each prompt backwards; a test of others replaces this method."""
        self.asked.append(("generate", list(prompts), options) if options else ("generate", list(prompts)))
        return [{"text": prompt[::-1], "tokens": len(prompt), "end": "stop"} for prompt in prompts]

    def _tensor(self, kind, name, writable=False):
        from ._errors import HookError

        if name not in self._tensors[kind]:
            raise HookError(f"there is no {kind} `{name}` in this test")
        array = self._tensors[kind][name]
        if writable:
            return array
        view = array.view()
        view.flags.writeable = False
        return view

    def parameter(self, name):
        return self._tensor("parameter", name)

    def parameter_mut(self, name):
        return self._tensor("parameter", name, True)

    def parameters(self):
        return [self.parameter(name) for name in self._tensors["parameter"]]

    def for_each_parameter(self, change):
        for array in self._tensors["parameter"].values():
            change(array)

    def gradient(self, name):
        return self._tensor("gradient", name)

    def gradient_mut(self, name):
        return self._tensor("gradient", name, True)

    def gradients(self):
        return [self.gradient(name) for name in self._tensors["gradient"]]

    def for_each_gradient(self, change):
        for array in self._tensors["gradient"].values():
            change(array)

    def variable(self, name):
        return self._tensor("variable", name)

    def inputs(self):
        return self.variable("inputs")

    def inputs_mut(self):
        return self._tensor("variable", "inputs", True)

    def targets(self):
        return self.variable("targets")

    def outputs(self):
        return self.variable("outputs")

    def outputs_mut(self):
        return self._tensor("variable", "outputs", True)


#: Methods of the host's task that only request something.
_REQUESTS = frozenset(
    """stop stop_after_epoch skip_batch skip_update set_learning_rate set_momentum set_weight_decay
    set_accumulation scale_loss freeze unfreeze renew_statistics save_checkpoint copy_checkpoint delete_checkpoint publish_weights load_parameters roll_back validate_now
    swap_parameters swap_back listen_at_modules retract""".split()
)


class FakeModule(Module):
    """A module with these arrays."""

    __slots__ = ("_arrays",)

    def __init__(self, name, kind, **arrays):
        super().__init__(None, name, kind)
        self._arrays = arrays

    def input(self):
        return self._arrays["input"]

    def output(self):
        return self._arrays["output"]

    def input_gradient(self):
        return self._arrays["input_gradient"]

    def output_gradient(self):
        return self._arrays["output_gradient"]

    def parameters(self):
        return self._arrays.get("parameters", [])


class FakeSetup:
    """What a hook gets when it is created."""

    def __init__(self, name="test", run_directory=".", seed=0, is_resumed=False, manifest=None, plan=None):
        self.name = name
        self.run_directory = Path(run_directory)
        self.seed = seed
        self.is_resumed = is_resumed
        self.host_version = "sconce.testing"
        self.manifest = manifest or {}
        self.plan = plan
        #: What the hook has logged: pairs of level and text.
        self.messages = []
        #: What it has claimed.
        self.claimed = []

    def info(self, message):
        self.messages.append(("info", message))

    def warn(self, message):
        self.messages.append(("warn", message))

    def claim(self, what):
        self.claimed.append(what)
