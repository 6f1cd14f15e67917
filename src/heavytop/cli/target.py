"""The target of a command: a built-in system by name, ``system`` in a user's Python file, or a robot file."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from typer import Argument, Option

from heavytop.cli.choices import complete_system
from heavytop.cli.terminal import fail, notice, working

if TYPE_CHECKING:
    from heavytop.system import Model, System

TARGET: Any = Argument(
    metavar="NAME|FILE",
    help="A built-in system (pendulum, furuta, tricopter-load, chain:20, ...), a Python file that defines `system` (the file is RUN: name only "
    "files you trust), or a robot file (URDF, MJCF, SDF).",
    autocompletion=complete_system,
)
BASE: Any = Option("--base", help="For a URDF file: whether its root link is `fixed` to the world or `free`.")
CONTACTS: Any = Option(
    "--contacts",
    metavar="TEXT",
    help="For a robot file: the links that touch the ground, `feet`, `all` or their names, comma-separated.",
)
ROBOT_FILES = (".urdf", ".xml", ".mjcf", ".sdf", ".xacro")


def load_target(
    target: str, base: str = "fixed", shapes: str = "visual", contacts: str | None = None
) -> System | Model:
    """Return the named system or model; a mistake ends the command with exit code 2. ``shapes`` of a robot file are "visual" or "collision"."""
    if is_robot(target):
        return _load_robot(target, base, shapes, contacts)
    if contacts is not None:
        raise fail(f"--contacts is for robot files; {target!r} defines its own contacts.")
    if target.lower().endswith(".toml"):
        raise fail(
            f"{target!r}: systems come from Python and robot files. An airframe flies with heavytop fly {target}, studies run with "
            "heavytop plan and heavytop sweep."
        )
    if is_file(target):
        return names_of_file(Path(target))["system"]
    from heavytop import library

    return library.load(target)


def _load_robot(target: str, base: str, shapes: str, contacts: str | None) -> System:
    """Load a robot file; elements that are not represented are reported in one line on the terminal."""
    from heavytop.io import load

    named = contacts if contacts in (None, "feet", "all") else [name.strip() for name in contacts.split(",")]
    system = load(target, base, shapes=shapes, contacts=named)
    if system.report.losses or system.report.changes:
        kinds = ", ".join(dict.fromkeys(item.what for item in system.report.losses))
        lost = f"; not represented: {kinds}" if kinds else ""
        notice(f"{Path(target).name}: {system.report.summary()}{lost}. `heavytop.load({target!r}).report` says where.")
    return system


def check_target(target: str, base: str, command: str) -> None:
    """Reject a command without a target, a base that does not exist, or a base of a target that has none."""
    if not target:
        raise fail(
            f"name a system or a file: heavytop {command} furuta. heavytop {command} --list shows the built-in systems."
        )
    if base not in ("fixed", "free"):
        raise fail(f"--base must be fixed or free, got {base!r}.")
    if base == "free" and not is_robot(target):
        raise fail(f"--base is for robot files; {target!r} defines its own base.")


def is_robot(target: str) -> bool:
    """Whether a target is a robot file."""
    return target.lower().endswith(ROBOT_FILES)


def is_file(target: str) -> bool:
    """Whether a target is a file rather than a built-in system."""
    return is_robot(target) or target.endswith(".py") or "/" in target or "\\" in target


def derived(found: System | Model, native: bool = True) -> Model:
    """Return the model of a system, or the model itself."""
    from heavytop.system import Model

    if isinstance(found, Model):
        return found
    with working(f"deriving {found.name}"):
        return found.derive(native=native)


def names_of_file(path: Path) -> dict[str, Any]:
    """Run a Python file and return the names it defines, among them a ``system``."""
    from heavytop.system import Model, System

    if not path.is_file():
        raise fail(f"the file {str(path)!r} does not exist.")
    namespace = _run(path)
    if "system" not in namespace:
        names = ", ".join(repr(name) for name, value in namespace.items() if isinstance(value, (System, Model)))
        hint = f" It defines {names}: call it 'system'." if names else " Assign an ht.System or ht.Model to that name."
        raise fail(f"{str(path)!r} defines no 'system'.{hint}")
    found = namespace["system"]
    if not isinstance(found, (System, Model)):
        raise fail(f"'system' in {str(path)!r} must be an ht.System or ht.Model, got {type(found).__name__}.")
    return namespace


def _run(path: Path) -> dict[str, Any]:
    """Run a file and return the names it defines; the traceback of an error shows only lines of that file."""
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    folder, before = str(path.resolve().parent), sys.modules.get(path.stem)
    sys.path.insert(0, folder)
    sys.modules[path.stem] = module  # dataclasses look their module up
    try:
        code = compile(path.read_text("utf-8"), str(path), "exec", dont_inherit=True)
        exec(code, module.__dict__)
    except SyntaxError as error:
        raise fail("".join(traceback.format_exception_only(error)).strip()) from None
    except UnicodeDecodeError:
        raise fail(f"{str(path)!r} is not a Python file: it is not UTF-8 text.") from None
    except (Exception, SystemExit) as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
        shown = [*traceback.format_list(frames), *traceback.format_exception_only(error)]
        raise fail(f"in {str(path)!r}:\n{''.join(shown).rstrip()}") from None
    finally:
        if folder in sys.path:
            sys.path.remove(folder)
        if before is None:
            sys.modules.pop(path.stem, None)
        else:
            sys.modules[path.stem] = before
    return module.__dict__
