"""Tensors of the host, as arrays that share its memory."""

try:
    from ._native import Tensor as _Tensor  # type: ignore[import-not-found]
except ImportError:  # Outside the host, for tests and type checkers.

    class _Tensor:  # type: ignore[no-redef]
        """Nothing to share: `sconce.testing` has arrays instead."""

        __slots__ = ()


class _Raw:
    """The bits of a tensor as 16-bit integers; keeps the tensor alive."""

    def __init__(self, tensor, interface):
        self.tensor = tensor
        self.__array_interface__ = interface


class Tensor(_Tensor):
    """A tensor in the host's memory: `numpy.asarray(tensor)` shares it, `tensor.copy()` copies it.

    Arrays of a tensor from a method that ends in `_mut` can be written to during the call; those of others can't.
    An array may outlive the call only if it is read-only, and its elements then change as the training goes on: keep
    a `copy()`.
    """

    __slots__ = ()

    def numpy(self):
        """An array that shares the host's memory.

        Elements of type `bf16` need the package `ml_dtypes`.
        """
        import numpy

        if self.dtype != "bf16":
            return numpy.asarray(self)
        try:
            import ml_dtypes
        except ImportError:
            raise TypeError(
                f"`{self.name}` is bf16, which NumPy lacks: install ml_dtypes, "
                "or use .copy(), which converts to float32"
            ) from None
        return numpy.asarray(_Raw(self, self._bits())).view(ml_dtypes.bfloat16)

    def copy(self):
        """A new array with the elements; `bf16` becomes `float32`."""
        import numpy

        if self.dtype != "bf16":
            return numpy.array(self)
        bits = numpy.asarray(_Raw(self, self._bits())).astype(numpy.uint32)
        return (bits << 16).view(numpy.float32)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if dl_device not in (None, (1, 0)):
            raise BufferError("the tensor is in main memory")
        if copy:
            raise BufferError("use .copy() for a copy")
        has_flags = max_version is not None and max_version[0] >= 1
        if not has_flags and not self.is_writable:
            raise BufferError(
                f"`{self.name}` is read-only, which this version of DLPack can't express: pass on .copy()"
            )
        return self._dlpack(has_flags)

    def __dlpack_device__(self):
        return (1, 0)

    def __len__(self):
        if not self.shape:
            raise TypeError("len() of a tensor without dimensions")
        return self.shape[0]

    def __float__(self):
        return float(self.copy())

    def __repr__(self):
        return f"Tensor({self.name!r}, {self.dtype}, {self.shape})"
