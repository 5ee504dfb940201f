"""Where PyTorch's tensors lie, as hooks are shown them: nothing is copied."""

# DLPack's code and bits of each type that crosses.
_TYPES = {
    "torch.float32": (2, 32),
    "torch.float64": (2, 64),
    "torch.float16": (2, 16),
    "torch.bfloat16": (4, 16),
    "torch.int64": (0, 64),
    "torch.int32": (0, 32),
    "torch.uint8": (1, 8),
}


class NotShown(Exception):
    """Why a tensor can't be shown to hooks."""


def address(tensor):
    """Address, shape, strides, and type of a tensor.

    A tensor that fills its memory in another order of its dimensions (channels last) is shown in the order in which it lies there: what
    hooks do to all elements is the same, and it is what its gradient does, too.
    """
    problem = why_not_shown(tensor)
    if problem:
        raise NotShown(problem)
    shape, strides = list(tensor.shape), list(tensor.stride())
    if not tensor.is_contiguous():
        order = sorted(range(len(shape)), key=lambda index: -strides[index])
        shape, strides = [shape[index] for index in order], [strides[index] for index in order]
    code, bits = _TYPES[str(tensor.dtype)]
    return tensor.data_ptr(), shape, strides, code, bits


def why_not_shown(tensor):
    """Why a tensor can't be shown to hooks, or None."""
    if tensor.layout != _strided():
        return f"its layout is {tensor.layout}: hooks see dense tensors alone"
    if tensor.device.type != "cpu":
        return f"it is on {tensor.device}: hooks in loops of Python's see tensors in the computer's memory alone"
    if str(tensor.dtype) not in _TYPES:
        return f"its type is {tensor.dtype}"
    if not is_dense(tensor):
        return f"its strides {tuple(tensor.stride())} leave gaps or overlap"
    return None


def is_dense(tensor):
    """Whether the elements fill their memory, in whatever order of the dimensions."""
    if tensor.is_contiguous():
        return True
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True


def _strided():
    import torch

    return torch.strided


def named(model):
    """The model's parameters and buffers: name, tensor, whether it is a buffer. Tied weights have their first name alone."""
    for name, parameter in model.named_parameters():
        yield name, parameter, False
    for name, buffer in model.named_buffers():
        if str(buffer.dtype) in _TYPES:
            yield name, buffer, True


class Parameters:
    """A model's parameters where they lie, and their gradients."""

    def __init__(self, model):
        self.model = model
        self.entries = []
        self._addresses = []
        self._gradients_checked = False
        self.refresh()

    def refresh(self):
        """Looks again where the parameters are; returns whether one has moved or was replaced."""
        entries = list(named(self.model))
        addresses = [tensor.data_ptr() for _, tensor, _ in entries]
        is_same = len(entries) == len(self.entries) and all(
            new is old for (_, new, _), (_, old, _) in zip(entries, self.entries)
        )
        if is_same and addresses == self._addresses:
            return False
        self.entries, self._addresses = entries, addresses
        self.learned = [tensor for _, tensor, is_buffer in entries if not is_buffer]
        self.by_name = {name: tensor for name, tensor, _ in entries}
        self._gradients_checked = False
        return True

    def threads(self):
        """Threads that PyTorch computes with."""
        import torch

        return torch.get_num_threads()

    def shown(self):
        """The parameters as `start_hooks` takes them; the error names one that can't be shown."""
        shown = []
        for name, tensor, is_buffer in self.entries:
            try:
                shown.append((name, address(tensor.detach()), is_buffer))
            except NotShown as problem:
                raise NotShown(f"the parameter `{name}` can't be shown to hooks: {problem}") from None
        return shown

    def gradients(self):
        """Addresses of the gradients at the parameters' indices, 0 for none."""
        if not self._gradients_checked:
            self._check_gradients()
        return [0 if (gradient := tensor.grad) is None else gradient.data_ptr() for _, tensor, _ in self.entries]

    def _check_gradients(self):
        for name, tensor, _ in self.entries:
            gradient = tensor.grad
            if gradient is None:
                continue
            problem = why_not_shown(gradient)
            if not problem and (gradient.stride() != tensor.stride() or gradient.dtype != tensor.dtype):
                problem = f"it is {gradient.dtype} with strides {gradient.stride()}, the parameter {tensor.dtype} with {tensor.stride()}"
            if problem:
                raise NotShown(f"the gradient of `{name}` can't be shown to hooks: {problem}")
        self._gradients_checked = True

    def note_changes(self, gradients):
        """Tells PyTorch that hooks may have changed elements, by which its own checks of the backward pass go."""
        import torch

        note = torch.autograd.graph.increment_version
        for tensor in self.learned:
            changed = tensor.grad if gradients else tensor
            if changed is not None:
                note(changed)
