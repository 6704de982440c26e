"""Identity of a policy written in Python: its code, and the content of all that it holds and calls."""

from __future__ import annotations

import enum
import functools
import hashlib
import json
import platform
import sys
import sysconfig
import types
from collections.abc import Iterable, Mapping
from typing import Any

from . import _wattline

# Attributes of classes that Python derives, that differ between processes, or that change no result.
_APART = frozenset({
    "__abstractmethods__", "__annotate__", "__annotate_func__", "__annotations__", "__annotations_cache__",
    "__dataclass_fields__", "__dataclass_params__", "__dict__", "__doc__", "__firstlineno__", "__module__",
    "__static_attributes__", "__weakref__", "_abc_impl",
})
_PLAIN = (type(None), bool, int, float, complex, str, type(Ellipsis), type(NotImplemented))
_INSTALLED = tuple(
    {path for name in ("stdlib", "platstdlib", "purelib", "platlib") if (path := sysconfig.get_path(name))}
)


def of_policy(policy: Any) -> dict[str, Any]:
    """Distinguishes this policy from any other that may decide differently.

    An error names what cannot be seen into.
    """
    kind = policy if isinstance(policy, type) else type(policy)
    try:
        content = _Walk().of(policy)
    except RecursionError:
        raise _wattline.Error(
            f"the policy {kind.__name__} is nested too deeply to be distinguished from others; do without keep"
        ) from None
    except _Opaque as opaque:
        raise _wattline.Error(
            f"the policy {kind.__name__} holds {opaque}, whose content cannot be seen, so that its "
            "results could be taken for another's; hold something else, or do without keep"
        ) from None
    return {
        "class": kind.__qualname__,
        "python": f"{sys.implementation.name} {platform.python_version()}",
        "content": hashlib.sha256(_text(content).encode()).hexdigest(),
        "version": repr(getattr(policy, "version", None)),
    }


class _Opaque(Exception):
    """Something whose content cannot be seen."""


def _text(content: Any) -> str:
    return json.dumps(content, sort_keys=True)


def _is_installed(name: str | None) -> bool:
    """True if a module comes with Python or with a package, and so changes with its version alone."""
    module = sys.modules.get(name or "")
    if name == "__main__" or module is None:
        return False
    file = getattr(module, "__file__", None)
    if file is None:
        spec = module.__spec__
        return spec is not None and spec.origin in ("built-in", "frozen")
    return str(file).startswith(_INSTALLED)


def _comes_from(thing: Any) -> bool:
    """True if an installed module has this object by that name."""
    found: Any = sys.modules.get(thing.__module__ or "")
    if not _is_installed(thing.__module__):
        return False
    for part in thing.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is thing


def _installed(name: str, what: str) -> list[Any]:
    package = sys.modules.get(name.split(".")[0])
    return ["installed", name, what, str(getattr(package, "__version__", ""))]


class _Walk:
    """One walk through a policy. Objects that are met again are named by their place, so circles end."""

    def __init__(self) -> None:
        self._met: dict[int, int] = {}
        # Keeps all objects alive, or another could get the address of one.
        self._alive: list[object] = []

    def of(self, thing: Any) -> Any:
        if isinstance(thing, enum.Enum):
            return ["enum", type(thing).__qualname__, thing.name, self.of(thing.value)]
        if type(thing) in _PLAIN:
            return [type(thing).__name__, repr(thing)]
        if isinstance(thing, (bytes, bytearray)):
            return [type(thing).__name__, hashlib.sha256(thing).hexdigest()]
        # Python may or may not make two equal ones of these one object.
        if type(thing) is tuple:
            return ["tuple", [self.of(one) for one in thing]]
        if type(thing) is frozenset:
            return ["frozenset", self._sorted(thing)]
        if isinstance(thing, types.CodeType):
            return self._code(thing)
        if id(thing) in self._met:
            return ["again", self._met[id(thing)]]
        self._met[id(thing)] = len(self._met)
        self._alive.append(thing)
        if type(thing) is list:
            return ["list", [self.of(one) for one in thing]]
        if type(thing) is set:
            return ["set", self._sorted(thing)]
        if type(thing) in (dict, types.MappingProxyType):
            return ["dict", [[self.of(key), self.of(value)] for key, value in thing.items()]]
        if isinstance(thing, types.ModuleType):
            return self._module(thing)
        if isinstance(thing, types.FunctionType):
            return self._function(thing)
        if isinstance(thing, type):
            return self._class(thing)
        if isinstance(thing, types.MethodType):
            return ["method", self.of(thing.__func__), self.of(thing.__self__)]
        if isinstance(thing, (staticmethod, classmethod)):
            return [type(thing).__name__, self.of(thing.__func__)]
        if isinstance(thing, property):
            return ["property", self.of(thing.fget), self.of(thing.fset), self.of(thing.fdel)]
        if isinstance(thing, functools.cached_property):
            return ["cached_property", self.of(thing.func)]
        return self._object(thing)

    def _sorted(self, things: Iterable[Any]) -> list[Any]:
        # Sets have another order in every process.
        return sorted((_Walk().of(one) for one in things), key=_text)

    def _module(self, module: types.ModuleType) -> list[Any]:
        name = module.__name__
        if _is_installed(name):
            return _installed(name, "")
        file = getattr(module, "__file__", None)
        if file is None:
            raise _Opaque(f"the module {name}")
        with open(file, "rb") as source:
            return ["module", name, hashlib.sha256(source.read()).hexdigest()]

    def _function(self, function: types.FunctionType) -> list[Any]:
        if _comes_from(function):
            return _installed(function.__module__, function.__qualname__)
        cells = []
        for cell in function.__closure__ or ():
            try:
                cells.append(self.of(cell.cell_contents))
            except ValueError:
                cells.append("empty")
        called = {
            name: self.of(function.__globals__[name])
            for name in sorted(_names(function.__code__))
            if name in function.__globals__
        }
        defaults = [self.of(function.__defaults__), self.of(function.__kwdefaults__)]
        return ["function", self.of(function.__code__), defaults, cells, called]

    def _code(self, code: types.CodeType) -> list[Any]:
        counts = [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags]
        names = [list(code.co_names), list(code.co_varnames), list(code.co_freevars), counts]
        table = getattr(code, "co_exceptiontable", b"")
        return ["code", hashlib.sha256(code.co_code + table).hexdigest(), names, self.of(code.co_consts)]

    def _class(self, kind: type) -> list[Any]:
        if _comes_from(kind):
            return _installed(kind.__module__, kind.__qualname__)
        own = {name: self.of(value) for name, value in sorted(vars(kind).items()) if name not in _APART}
        return ["class", kind.__qualname__, [self.of(base) for base in kind.__bases__], own]

    def _object(self, thing: Any) -> list[Any]:
        """Content as pickle sees it: the constructor, its arguments, and the state."""
        if isinstance(thing, (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)):
            owner = getattr(thing, "__self__", None)
            whose = [] if owner is None or isinstance(owner, types.ModuleType) else [self.of(owner)]
            return ["built-in", thing.__qualname__, *whose]
        if isinstance(thing, (types.MemberDescriptorType, types.GetSetDescriptorType)):
            return ["slot", thing.__name__]
        try:
            made = thing.__reduce_ex__(4)
        except Exception as error:
            raise _Opaque(f"{thing!r} ({error})") from None
        if isinstance(made, str):
            # One that wraps a function, such as functools.lru_cache, names itself by it.
            return ["named", type(thing).__qualname__, made, self.of(getattr(thing, "__wrapped__", None))]
        maker, arguments, *rest = made
        held = [list(part) if hasattr(part, "__next__") else part for part in rest]
        if held and isinstance(held[0], Mapping):
            held[0] = dict(sorted(held[0].items(), key=lambda item: str(item[0])))
        return ["object", self.of(maker), self.of(arguments), [self.of(part) for part in held]]


def _names(code: types.CodeType) -> set[str]:
    """Names that a function looks up, and functions within it."""
    inner = [_names(one) for one in code.co_consts if isinstance(one, types.CodeType)]
    return set(code.co_names).union(*inner)
