"""What mutated code calls instead of its own functions: the original, or the one mutant that is switched on."""

from collections.abc import Callable
from functools import wraps

from mutmut.mutation.trampoline_templates import mangle_function_name

Function = Callable[..., object]
Mutants = dict[str, Function]
Name = tuple[str, str]
"""A module, and in it a function as mutmut calls it."""


class Switch:
    """The mutant that is on, and the functions that were called."""

    function: Name = ("", "")
    mutant = ""

    def __init__(self) -> None:
        """Begin with nothing switched on."""
        self.called: set[Name] = set()

    def on(self, module: str, mutant: str) -> None:
        """Switch a mutant on."""
        self.function, self.mutant = (module, function_of(mutant)), mutant


SWITCH = Switch()


def function_of(mutant: str) -> str:
    """Return the function of which this is a mutant."""
    return mutant.partition("__mutmut_")[0]


def choose(mutants: Mutants) -> Callable[[Function], Function]:
    """Return a decorator that puts the mutant that is on in a function's place."""

    def decorate(function: Function) -> Function:
        owner, _, name = function.__qualname__.rpartition(".")
        known = (function.__module__, mangle_function_name(name=name, class_name=owner or None))

        @wraps(function)
        def call(*args: object, **fields: object) -> object:
            SWITCH.called.add(known)
            return mutants[SWITCH.mutant if known == SWITCH.function else "_mutmut_orig"](*args, **fields)

        return call

    return decorate
