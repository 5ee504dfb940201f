"""The running task, as hooks see it."""

import json

try:
    from ._native import Task as _Task  # type: ignore[import-not-found]
except ImportError:  # Outside the host, for tests and type checkers.

    class _Task:  # type: ignore[no-redef]
        """Nothing runs: `sconce.testing` has a task for tests."""

        __slots__ = ()


# Collections of tensors, by their numbers in the host's interface.
_PARAMETERS, _GRADIENTS, _BATCH, _MODULE, _PUBLISHED, _CHECKPOINT, _OPTIMIZER = range(7)


class Task(_Task):
    """The running task during one call of a hook.

    Names and rules are those of `TaskView` in `sconce-plugin-api`. Facts about the moment are attributes (`task.loss`,
    `task.epoch`), everything else is a method. Epoch, iteration and update count what is finished, from 0. Requests are
    served after all hooks of the mount point have run. The task can be used during the call only, on its thread.
    """

    __slots__ = ()

    def _all(self, collection, writable=False):
        slots = (self._tensor_at(collection, i, writable) for i in range(self._tensor_count(collection)))
        return [tensor for tensor in slots if tensor is not None]

    def _for_each(self, collection, change):
        for index in range(self._tensor_count(collection)):
            tensor = self._tensor_at(collection, index, True)
            if tensor is not None:
                change(tensor)

    @property
    def facts(self):
        """Names, shapes and sizes that don't change during the run, as a dictionary. Parses JSON: ask once."""
        return json.loads(self._facts())

    def gather(self, value):
        """Every rank's JSON value, in the order of ranks. The hook's instances on all ranks call it at the same point of
        the training, for which its manifest entry has `"ranks": "all"`."""
        return json.loads(self._gather(json.dumps(value)))

    def parameters(self):
        """The model's parameters and buffers, in order of registration."""
        return self._all(_PARAMETERS)

    def parameter(self, name):
        """The parameter or buffer with this name."""
        return self._tensor(_PARAMETERS, name, False)

    def parameter_mut(self, name):
        """A parameter or buffer for in-place modification."""
        return self._tensor(_PARAMETERS, name, True)

    def for_each_parameter(self, change):
        """Calls `change` with each parameter and buffer, for in-place modification."""
        self._for_each(_PARAMETERS, change)

    def gradients(self):
        """The gradients, under their parameters' names; none at mount points without gradients."""
        return self._all(_GRADIENTS)

    def gradient(self, name):
        """The gradient of the parameter with this name."""
        return self._tensor(_GRADIENTS, name, False)

    def gradient_mut(self, name):
        """A gradient for in-place modification, at `after_backward` and `before_update`."""
        return self._tensor(_GRADIENTS, name, True)

    def for_each_gradient(self, change):
        """Calls `change` with each gradient, for in-place modification."""
        self._for_each(_GRADIENTS, change)

    def inputs(self):
        """Inputs of the batch, from `before_iter` to `after_iter`."""
        return self._tensor(_BATCH, "inputs", False)

    def inputs_mut(self):
        """Inputs of the batch for in-place modification, at `before_iter`."""
        return self._tensor(_BATCH, "inputs", True)

    def targets(self):
        """Targets of the batch, from `before_iter` to `after_iter`."""
        return self._tensor(_BATCH, "targets", False)

    def sample_indices(self):
        """Indices of the batch's samples in the data set."""
        return self._tensor(_BATCH, "indices", False)

    def outputs(self):
        """The model's outputs, from `after_forward` to `after_iter`."""
        return self._tensor(_BATCH, "outputs", False)

    def outputs_mut(self):
        """The model's outputs for in-place modification, at `after_forward`."""
        return self._tensor(_BATCH, "outputs", True)

    def variables(self):
        """The batch's tensors: inputs, targets, outputs, loss, and others of the task."""
        return self._all(_BATCH)

    def variable(self, name):
        """The tensor of the batch with this name."""
        return self._tensor(_BATCH, name, False)

    def optimizer_state(self):
        """The optimizer's tensors, with names such as `fc1.weight.exp_avg`."""
        return self._all(_OPTIMIZER)

    def optimizer_tensor(self, name):
        """The optimizer's tensor with this name."""
        return self._tensor(_OPTIMIZER, name, False)

    def publish(self, name, value, keep):
        """Publishes a JSON value for other hooks; `keep` is `batch`, `epoch` or `run`."""
        self._publish(name, json.dumps(value), keep)

    def published(self, name):
        """A value that a hook has published, or None."""
        text = self._published(name)
        return None if text is None else json.loads(text)

    def publish_tensor(self, name, array, keep):
        """Publishes a copy of an array for other hooks and the task's loss; `keep` is `batch`, `epoch` or `run`."""
        self._publish_tensor(name, *_parts(name, array), keep)

    def published_tensor(self, name):
        """A tensor that a hook has published."""
        return self._tensor(_PUBLISHED, name, False)

    def published_tensor_mut(self, name):
        """A tensor that this hook has published, for in-place modification."""
        return self._tensor(_PUBLISHED, name, True)

    def save_checkpoint(self, tag, /, *, parameters_only=False, in_background=False):
        """Saves a checkpoint once all hooks of this point have run; its parameters alone if asked for, and in the
        background: training waits for a copy in memory only."""
        self._save_checkpoint(tag, parameters_only, in_background)

    def generate(self, prompts, /, **options):
        """Has the model write on from each prompt, with the parameters as they are: a list of dictionaries with `text`, `tokens` and
        `end`. Options are those of `sconce generate`: `tokens`, `temperature`, `top_k`, `top_p`, `min_p`, `repetition_penalty`,
        `seed` and `stop`, a list."""
        return json.loads(self._generate(json.dumps({"prompts": list(prompts), **options})))

    def forward_pass(self, name, /, *, set="", view=None, module="", mode="evaluation"):
        """Runs the model on the batch without gradient, at `before_iter`, and publishes the output of `module` (empty: the last) as
        `name` until the end of the batch: with the values of the published `set` (tensors `SET/PARAMETER`) or, if it is empty, with the
        parameters as they are; on one `view` of the samples, or on all. `mode` is `evaluation` or `training`: batch norms by the batch's
        statistics, which leave the running ones as they are."""
        self._forward_pass(name, set, -1 if view is None else view, module, mode)

    def set_loss(self, value, gradient):
        """Gives the loss of the batch in the place of the task's, at `after_forward`: its value, a mean over the samples, and its
        gradient with respect to the outputs. In evaluations the gradient is not looked at, and may be empty."""
        dtype, _, elements = _parts("gradient", gradient)
        self._set_loss(float(value), dtype, elements)

    def add_to_checkpoint(self, name, value):
        """Adds a JSON value to the checkpoint about to be saved."""
        self._publish(name, json.dumps(value), "checkpoint")

    def add_tensor_to_checkpoint(self, name, array):
        """Adds a copy of an array to the checkpoint about to be saved."""
        self._publish_tensor(name, *_parts(name, array), "checkpoint")

    def in_checkpoint(self, name):
        """A value of the current checkpoint, or None."""
        text = self._in_checkpoint(name)
        return None if text is None else json.loads(text)

    def tensor_in_checkpoint(self, name):
        """A tensor of the current checkpoint."""
        return self._tensor(_CHECKPOINT, name, False)


class Module:
    """The layer that `module_forward` or `module_backward` is called for; read-only."""

    __slots__ = ("_task", "kind", "name")

    def __init__(self, task, name, kind):
        self._task = task
        self.name = name
        self.kind = kind

    def input(self):
        """The layer's first input."""
        return self._task._tensor(_MODULE, "input", False)

    def output(self):
        """The layer's output."""
        return self._task._tensor(_MODULE, "output", False)

    def input_gradient(self):
        """Gradient of the input, at `module_backward`."""
        return self._task._tensor(_MODULE, "input_gradient", False)

    def output_gradient(self):
        """Gradient of the output, at `module_backward`."""
        return self._task._tensor(_MODULE, "output_gradient", False)

    def parameters(self):
        """The layer's parameters and buffers."""
        prefix = f"{self.name}."
        return [one for one in self._task.parameters() if one.name.startswith(prefix)]


# NumPy's types, by the names that the host uses.
_DTYPES = {
    "float32": "f32",
    "float64": "f64",
    "float16": "f16",
    "bfloat16": "bf16",
    "int64": "i64",
    "uint32": "u32",
    "uint8": "u8",
}


def _parts(name, array):
    """Type, shape and bytes of an array."""
    import numpy

    array = numpy.asarray(array)
    dtype = _DTYPES.get(array.dtype.name)
    if dtype is None:
        known = ", ".join(_DTYPES)
        raise TypeError(f"`{name}` is {array.dtype.name}; tensors are {known}: convert it with .astype()")
    return dtype, json.dumps(array.shape), array.tobytes()
