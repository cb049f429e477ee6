"""cuBLASLt through ctypes: the fourteen functions that time one matrix product.

The library is whatever copy the machine has (torch's, the ``nvidia-cublas`` wheel's, conda's, a system toolkit's), found by
``cuda.pathfinder``; the environment variable ``SPECADVISOR_CUBLASLT`` names another one. Engines compute
y[M,N] = x[M,K] W[N,K]^T on row-major arrays. In cuBLASLt's column-major terms that is D(N x M) = op(A) op(B) with A = W
(K x N, transposed) and B = x (K x M): the "TN" form that fp8 and fp4 require anyway.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

from specadvisor.calibration.gemm_formats import BF16, SCALE_SCALAR, Recipe
from specadvisor.errors import MissingDependency, SpecadvisorError

VARIABLE = "SPECADVISOR_CUBLASLT"
_COMPUTE_32F, _REAL_32F, _TRANSPOSED, _PLAIN = 68, 0, 1, 0
# cublasLtMatmulDescAttributes_t
_TRANSA, _TRANSB, _A_SCALE, _B_SCALE, _FAST_ACCUMULATION, _A_SCALE_MODE, _B_SCALE_MODE = 3, 4, 17, 18, 25, 31, 32
_MAX_WORKSPACE = 1
# cublasLtMatmulAlgoConfigAttributes_t: name -> (attribute, bytes)
_ALGORITHM = {"id": (0, 4), "tile": (1, 4), "split_k": (2, 4), "stages": (6, 4), "cluster": (8, 2)}
_INVALID_VALUE, _ARCHITECTURE_MISMATCH, _NOT_SUPPORTED = 7, 8, 15


class CublasLtError(SpecadvisorError):
    """cuBLASLt refused a call; ``status`` is its cublasStatus_t."""

    def __init__(self, status: int, what: str) -> None:
        self.status = status
        super().__init__(f"{what}: cuBLASLt answers status {status}.")


class NotSupported(CublasLtError):
    """This format, shape and GPU have no cuBLASLt kernel."""


class _Heuristic(ctypes.Structure):
    _fields_ = [
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    ]


def _find() -> str:
    if path := os.environ.get(VARIABLE):
        return path
    from cuda.pathfinder import load_nvidia_dynamic_lib

    return str(load_nvidia_dynamic_lib("cublasLt").abs_path)


def _load(hint: str) -> tuple[ctypes.CDLL, str]:
    try:
        path = _find()
        library = ctypes.CDLL(path)
    except (ImportError, RuntimeError, OSError) as error:
        raise MissingDependency("cuBLASLt", "measuring matrix products", hint) from error
    try:
        _declare(library)
    except AttributeError as error:
        named = f" or correct {VARIABLE}" if os.environ.get(VARIABLE) else ""
        problem = f"{path} lacks cuBLASLt's functions: {hint or 'install cuBLASLt'}{named}"
        raise MissingDependency("cuBLASLt", "measuring matrix products", problem) from error
    return library, path


def _declare(library: ctypes.CDLL) -> None:
    """Argument types of every function used; ``AttributeError`` for a library that lacks one."""
    library.cublasLtGetVersion.restype = ctypes.c_size_t
    pointer, integer, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
    handle_out, size_out, count_out = ctypes.POINTER(pointer), ctypes.POINTER(size), ctypes.POINTER(integer)
    signatures: dict[str, list[Any]] = {
        "Create": [handle_out],
        "Destroy": [pointer],
        "MatmulDescCreate": [handle_out, integer, integer],
        "MatmulDescSetAttribute": [pointer, integer, pointer, size],
        "MatmulDescGetAttribute": [pointer, integer, pointer, size, size_out],
        "MatmulDescDestroy": [pointer],
        "MatrixLayoutCreate": [handle_out, integer, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int64],
        "MatrixLayoutDestroy": [pointer],
        "MatmulPreferenceCreate": [handle_out],
        "MatmulPreferenceSetAttribute": [pointer, integer, pointer, size],
        "MatmulPreferenceDestroy": [pointer],
        "MatmulAlgoGetHeuristic": [*[pointer] * 7, integer, pointer, count_out],
        "MatmulAlgoConfigGetAttribute": [pointer, integer, pointer, size, size_out],
        "Matmul": [*[pointer] * 14, size, pointer],
    }
    for name, arguments in signatures.items():
        getattr(library, f"cublasLt{name}").argtypes = arguments


def library_version() -> str:
    """``"13.1.0"`` of the library that would be loaded, without a GPU; empty where there is none."""
    try:
        return _version_text(_load("")[0])
    except MissingDependency:
        return ""


def _version_text(library: ctypes.CDLL) -> str:
    number = int(library.cublasLtGetVersion())  # 130100 is 13.1.0, 120805 is 12.8.5
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


class Library:
    """A cuBLASLt handle with its workspace in the current context."""

    def __init__(self, workspace: int = 0, workspace_bytes: int = 0, hint: str = "") -> None:
        self._library, self.path = _load(hint)
        self.workspace, self.workspace_bytes = workspace, workspace_bytes
        self.handle = ctypes.c_void_p()
        self.call("Create", ctypes.byref(self.handle))

    @property
    def version(self) -> str:
        return _version_text(self._library)

    def call(self, name: str, *arguments: Any) -> None:
        """Call ``cublasLt<name>``; raises ``NotSupported`` or ``CublasLtError``."""
        status = getattr(self._library, f"cublasLt{name}")(*arguments)
        if status:
            raise (NotSupported if status == _NOT_SUPPORTED else CublasLtError)(status, f"cublasLt{name}")

    def close(self) -> None:
        self._library.cublasLtDestroy(self.handle)


class Product:
    """y[M,N] (bf16) = x[M,K] W[N,K]^T in one format, with the algorithms that the heuristic proposes, best guess first."""

    def __init__(
        self,
        library: Library,
        recipe: Recipe,
        m: int,
        n: int,
        k: int,
        weight_scale: int = 0,
        input_scale: int = 0,
        wanted: int = 8,
    ) -> None:
        self._library, self._recipe = library, recipe
        self._description, self._preference = ctypes.c_void_p(), ctypes.c_void_p()
        self._layouts = tuple(ctypes.c_void_p() for _ in range(3))
        self._alpha, self._beta = ctypes.c_float(1.0), ctypes.c_float(0.0)
        self._algorithms = (_Heuristic * wanted)()
        try:
            self._describe(m, n, k, weight_scale, input_scale)
            found = ctypes.c_int()
            a, b, d = self._layouts
            inputs = (library.handle, self._description, a, b, d, d, self._preference)
            library.call("MatmulAlgoGetHeuristic", *inputs, wanted, ctypes.byref(self._algorithms), ctypes.byref(found))
        except CublasLtError as error:
            self.close()
            if error.status in (_INVALID_VALUE, _ARCHITECTURE_MISMATCH):  # an older library does not know the scale mode
                raise NotSupported(error.status, f"{recipe.format} {m}x{n}x{k}") from error
            raise
        usable = [h for h in self._algorithms[: found.value] if h.state == 0]
        self._algorithms = (_Heuristic * max(1, len(usable)))(*usable)
        self.algorithms = len(usable)
        if not self.algorithms:
            self.close()
            raise NotSupported(_NOT_SUPPORTED, f"No kernel for {recipe.format} {m}x{n}x{k}")

    def _describe(self, m: int, n: int, k: int, weight_scale: int, input_scale: int) -> None:
        call, recipe = self._library.call, self._recipe
        call("MatmulDescCreate", ctypes.byref(self._description), _COMPUTE_32F, _REAL_32F)
        self._set(_TRANSA, ctypes.c_int32(_TRANSPOSED))
        self._set(_TRANSB, ctypes.c_int32(_PLAIN))
        if recipe.fast_accumulation:
            self._set(_FAST_ACCUMULATION, ctypes.c_int8(1))
        if recipe.weight_scale is not None and recipe.input_scale is not None:
            if recipe.weight_scale != SCALE_SCALAR:  # the default; libraries before 12.8 lack the attribute
                self._set(_A_SCALE_MODE, ctypes.c_int32(recipe.weight_scale))
                self._set(_B_SCALE_MODE, ctypes.c_int32(recipe.input_scale))
            self._set(_A_SCALE, ctypes.c_void_p(weight_scale))  # before the heuristic, which looks at them
            self._set(_B_SCALE, ctypes.c_void_p(input_scale))
        shapes = ((recipe.data_type, k, n, k), (recipe.data_type, k, m, k), (BF16, n, m, n))
        for layout, (data_type, rows, columns, leading) in zip(self._layouts, shapes, strict=True):
            call("MatrixLayoutCreate", ctypes.byref(layout), data_type, rows, columns, leading)
        call("MatmulPreferenceCreate", ctypes.byref(self._preference))
        limit = ctypes.c_uint64(self._library.workspace_bytes)
        call("MatmulPreferenceSetAttribute", self._preference, _MAX_WORKSPACE, ctypes.byref(limit), 8)

    def _set(self, attribute: int, value: Any) -> None:
        size = ctypes.sizeof(value)
        self._library.call("MatmulDescSetAttribute", self._description, attribute, ctypes.byref(value), size)

    def algorithm(self, index: int = 0) -> dict[str, float]:
        """Facts of a proposed algorithm: id, tile, stages, split-K, cluster, waves, workspace. They change between releases."""
        chosen = self._algorithms[index]
        facts: dict[str, float] = {"waves": round(float(chosen.waves), 3), "workspace": int(chosen.workspace)}
        for name, (attribute, size) in _ALGORITHM.items():
            value, written = ctypes.c_uint32(0), ctypes.c_size_t()
            arguments = (ctypes.byref(chosen), attribute, ctypes.byref(value), size, ctypes.byref(written))
            try:
                self._library.call("MatmulAlgoConfigGetAttribute", *arguments)
            except CublasLtError:
                continue
            facts[name] = value.value & (1 << 8 * size) - 1
        return facts

    def run(self, stream: Any, weight: int, x: int, y: int, index: int = 0) -> None:
        """Enqueue the product with proposed algorithm ``index``; may be captured in a graph."""
        a, b, d = self._layouts
        library = self._library
        library.call(
            "Matmul", library.handle, self._description, ctypes.byref(self._alpha), weight, a, x, b, ctypes.byref(self._beta),
            y, d, y, d, ctypes.byref(self._algorithms[index]), library.workspace, library.workspace_bytes, int(stream),
        )  # fmt: skip

    def close(self) -> None:
        for name, values in (
            ("MatmulPreferenceDestroy", (self._preference,)),
            ("MatrixLayoutDestroy", self._layouts),
            ("MatmulDescDestroy", (self._description,)),
        ):
            for value in values:
                if value.value:
                    self._library.call(name, value)
                    value.value = None
