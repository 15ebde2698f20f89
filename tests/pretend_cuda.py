"""A CUDA device for machines that have none: ``python -m pytest -m gpu -p tests.pretend_cuda``.

Its tensors lie in the CPU's memory, say that they are on ``cuda:0``, and compute on the CPU. As on
a real device, they do not mix with those of the CPU and have no numpy array, and code takes all the
ways that it takes on a GPU: other operations, other block sizes, autocast. So the tests that need a
GPU show on any machine what is not a matter of the GPU itself: a tensor on the wrong device, an
operation that makes the CPU wait (``torch.cuda.set_sync_debug_mode``), wrong numbers. What a GPU's
own kernels do, and how fast, only a GPU shows; nor has this one streams, pinned memory, inference
mode or random numbers of its own, and it survives a fork.

It needs a C++ compiler and a torch that is not built for CUDA, and takes the place of CUDA in the
whole process.
"""

import ctypes
import importlib.util
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def _compile(folder: Path) -> Path:
    """Return a library with what torch's core wants to know of the device."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    torch_folder = Path(spec.origin).parent
    compiler = shutil.which("c++") or "g++"
    library = folder / "pretend_cuda.so"
    libraries = torch_folder / "lib"
    source = Path(__file__).with_suffix(".cpp")
    subprocess.run(
        [
            *(compiler, "-std=c++20", "-shared", "-fPIC", "-O0", str(source), "-o", str(library)),
            *(f"-I{torch_folder / 'include'}", f"-L{libraries}", f"-Wl,-rpath,{libraries}"),
            *("-lc10", "-ltorch_cpu"),
        ],
        check=True,
    )
    return library


# Torch's core asks once whether there is CUDA, so before Python imports the rest.
with tempfile.TemporaryDirectory() as temporary:
    ctypes.CDLL(str(_compile(Path(temporary))))

import torch  # noqa: E402
from torch import Tensor  # noqa: E402
from torch.utils._pytree import tree_leaves, tree_map  # noqa: E402

aten: Any = torch.ops.aten
DEVICE = torch.device("cuda:0")


class PretendTensor(Tensor):
    """A tensor that says that it is on the device; ``held`` has its numbers."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> "PretendTensor":
        """Return a tensor of the device with the memory of one of the CPU."""
        tensor: PretendTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=DEVICE,
        )
        tensor.held = held
        return tensor

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Compute with tensors of this class."""
        return _run(operation, args, kwargs or {})

    # By these two a module knows that its parameters can become such tensors.
    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["held"], None

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, Tensor], *_: object) -> "PretendTensor":
        return PretendTensor(inner["held"])

    def numpy(self, *, force: bool = False) -> Any:
        """Refuse, in torch's words."""
        assert not force
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu()")

    def tolist(self) -> Any:
        """Return the numbers, as Tensor does, which has no such method for other classes."""
        _wait("tolist")
        return self.held.tolist()


# Operations that make the CPU wait for a real device: it has to know what they find.
_WAITING = {
    aten._local_scalar_dense.default,
    aten.nonzero.default,
    aten.masked_select.default,
    aten.repeat_interleave.Tensor,
    aten._unique2.default,
    aten.unique_consecutive.default,
    aten.unique_dim.default,
}
# By the positions where a mask is true.
_INDEXING = {
    aten.index.Tensor,
    aten.index_put.default,
    aten.index_put_.default,
    aten._index_put_impl_.default,
}
_COPYING = {aten._to_copy.default, aten.copy_.default}

_sync_debug_mode = "default"


def _wait(name: object) -> None:
    if _sync_debug_mode == "error":
        raise RuntimeError(f"called a synchronizing CUDA operation: {name}")


def _set_sync_debug_mode(mode: str) -> None:
    global _sync_debug_mode
    _sync_debug_mode = mode


def _product(rows: Tensor, columns: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a product of another type than its factors, which CPUs lack."""
    return rows.to(dtype) @ columns.to(dtype)


def _product_into(rows: Tensor, columns: Tensor, dtype: torch.dtype, *, out: Tensor) -> Tensor:
    return out.copy_(_product(rows, columns, dtype))


_LACKING: dict[object, Callable[..., Tensor]] = {
    aten.mm.dtype: _product,
    aten.mm.dtype_out: _product_into,
}


def _run(operation: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    pretended = [tensor for tensor in tensors if isinstance(tensor, PretendTensor)]
    from_device = on_device = bool(pretended)
    at_once = kwargs.get("non_blocking", False)
    if kwargs.get("device") is not None:
        on_device = torch.device(kwargs["device"]).type == "cuda"
        kwargs = kwargs | {"device": torch.device("cpu")}
    if operation is aten.copy_.default:
        on_device, from_device = (isinstance(each, PretendTensor) for each in args[:2])
        at_once = args[2] if len(args) > 2 else at_once
    if operation in _COPYING:
        if on_device != from_device and not at_once:
            _wait(operation)
    elif pretended:
        strange = [each for each in tensors if each.dim() and not isinstance(each, PretendTensor)]
        if strange:
            raise RuntimeError(
                f"{operation}: expected all tensors to be on the same device, found one of shape "
                f"{tuple(strange[0].shape)} on the CPU"
            )
    # A number that is written to places is copied to the device, too.
    by_mask_or_number = operation in _INDEXING and any(
        tensor.dtype == torch.bool or not isinstance(tensor, PretendTensor)
        for tensor in tensors[1:]
    )
    if pretended and (by_mask_or_number or operation in _WAITING):
        _wait(operation)

    result = _LACKING.get(operation, operation)(*tree_map(_held, args), **tree_map(_held, kwargs))
    # What an operation writes in place, it returns: the same tensor, then.
    known = {id(tensor.held): tensor for tensor in pretended}

    def wrap(leaf: object) -> object:
        if not isinstance(leaf, Tensor):
            return leaf
        return known[id(leaf)] if id(leaf) in known else PretendTensor(leaf)

    return tree_map(wrap, result) if on_device else result


def _held(leaf: object) -> object:
    return leaf.held if isinstance(leaf, PretendTensor) else leaf


_tensor = torch.tensor


def _make_tensor(data: object, *, device: object = None, **options: Any) -> Tensor:
    """Do what `torch.tensor` does, which goes behind the back of other classes."""
    made: Tensor = _tensor(data, **options)
    return made if device is None else made.to(device)  # type: ignore[call-overload]


def _install() -> torch.library.Library:
    """Let torch find the device. (The library works as long as it is held.)"""
    cuda: Any = torch.cuda
    cuda._lazy_init = lambda: None
    cuda.is_available = lambda: True
    cuda.device_count = lambda: 1
    cuda.current_device = lambda: 0
    cuda.get_device_name = lambda *_: "no GPU, but one that is pretended"
    cuda.synchronize = lambda *_: None
    cuda.is_bf16_supported = lambda *_, **__: True
    cuda.set_sync_debug_mode = _set_sync_debug_mode
    anything: Any = torch
    anything.tensor = _make_tensor
    # Tensors of other classes cannot be made in inference mode.
    anything.inference_mode = torch.no_grad
    Tensor.pin_memory = Tensor.clone  # type: ignore[method-assign, assignment]
    # What makes a tensor from nothing has no tensor to say which class is asked.
    library = torch.library.Library("_", "IMPL")
    library.fallback(lambda operation, *args, **kwargs: _run(operation, args, kwargs), "CUDA")
    return library


_LIBRARY = _install()
