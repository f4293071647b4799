"""Apps are found, checked and made; everything that is refused is refused with a sentence."""

import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from apps.app_check import faults_of
from apps.contract import App, Options
from apps.registry import AppRefused, UnknownApp, compositions_file, create, discover, scan
from compositions.model import Stage, StageKind

HEAD = """
from apps.contract import App, Options
from compositions.model import Stage, StageKind
"""
ECHO = f"""{HEAD}
class Item:
    def __eq__(self, other):
        return isinstance(other, Item)

class EchoOptions(Options):
    times: int = 1

class Echo(App):
    name = "echo"
    stages = (Stage("say"),)
    options_model = EchoOptions
    def say(self, value):
        return value * self.options.times
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "echo.py").write_text(ECHO)
    return tmp_path


def test_app_of_a_folder_is_found_beside_the_built_in_ones(folder):
    found = discover([folder])
    assert found["synthetic"].__module__ == "apps.synthetic.app"
    (folder / "other.py").write_text("raise RuntimeError('loaded for nothing')")
    assert create("echo", {"times": 3}, [folder]).say("ab") == "ababab"


def test_package_with_relative_imports_is_found(tmp_path):
    package = tmp_path / "shout"
    package.mkdir()
    (package / "__init__.py").write_text("from .inner import Shout")
    inner = ECHO.replace("Echo", "Shout").replace("echo", "shout")
    (package / "inner.py").write_text(inner)
    assert scan([tmp_path]).faults == scan().faults
    assert create("shout", {}, [tmp_path]).say("a") == "a"


def test_files_may_have_another_name_than_their_app_or_that_of_a_file_elsewhere(folder, tmp_path_factory):
    second = tmp_path_factory.mktemp("second")
    (second / "echo.py").write_text(ECHO.replace('"echo"', '"echo2"'))
    assert {"echo", "echo2"} <= discover([folder, second]).keys()
    (folder / "echo.py").rename(folder / "other.py")
    assert create("echo", {}, [folder]).name == "echo"


def test_values_of_a_users_class_pass_between_processes(folder):
    item = sys.modules[discover([folder])["echo"].__module__].Item()
    script = (
        "import pickle, sys; from pathlib import Path; from apps.registry import create\n"
        f"create('echo', {{}}, [Path({str(folder)!r})])\n"
        "sys.stdout.buffer.write(pickle.dumps(pickle.load(sys.stdin.buffer)))"
    )
    done = subprocess.run([sys.executable, "-c", script], input=pickle.dumps(item), capture_output=True, check=True)
    assert pickle.loads(done.stdout) == item


def test_apps_of_a_folder_come_before_installed_ones(tmp_path: Path) -> None:
    (tmp_path / "zebra.py").write_text(ECHO.replace('"echo"', '"zebra"'))
    assert next(iter(discover([tmp_path]))) == "zebra"
    assert discover([tmp_path])["zebra"] is discover([tmp_path])["zebra"]


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("import no_such_module", "broken.py: cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise SystemExit(3)", "broken.py: cannot be loaded: SystemExit: 3"),
        ("class (", "broken.py: cannot be loaded: SyntaxError: invalid syntax"),
        (HEAD + "class A(App):\n    name = 'a'", "broken.py: app class A: stages is ();"),
        (ECHO, "app 'echo' is already defined by"),
    ],
)
def test_file_that_fails_is_told_and_the_others_load(folder, source, sentence):
    (folder / "broken.py").write_text(source)
    found = scan([folder])
    assert "echo" in found.apps
    assert any(sentence in str(fault) for fault in found.faults), found.faults


def test_files_without_apps_and_hidden_ones_are_no_fault(folder):
    (folder / "helper.py").write_text("x = 1")
    (folder / "_private.py").write_text("raise RuntimeError")
    (folder / "base.py").write_text(HEAD + "class Base(App):\n    pass")
    assert scan([folder]).faults == scan().faults


def test_missing_folder_is_told(tmp_path):
    faults = scan([tmp_path / "gone"]).faults
    assert any("no such folder; --apps accepts folders" in str(fault) for fault in faults)


def test_unknown_app_names_a_users_own_and_counts_the_bundled_ones(folder):
    with pytest.raises(UnknownApp, match=r"^unknown app 'zzz'; known apps are echo and \d+ bundled apps$"):
        create("zzz", {}, [folder])


def test_unknown_app_lists_what_there_is_and_what_failed(folder):
    (folder / "broken.py").write_text("1 / 0")
    with pytest.raises(UnknownApp, match=r"unknown app 'ech' \(did you mean 'echo'\?\); .*ZeroDivisionError"):
        create("ech", {}, [folder])


@pytest.mark.parametrize(
    ("options", "path", "message"),
    [
        ({"tims": 1}, "options.tims", "unknown option; options of app 'echo' are times"),
        ({"times": "many"}, "options.times", "'many' is not accepted: input should be a valid integer"),
    ],
)
def test_bad_options_are_refused_by_path(folder, options, path, message):
    with pytest.raises(AppRefused) as refused:
        create("echo", options, [folder])
    assert refused.value.faults[0].path == path
    assert message in refused.value.faults[0].message


def test_stages_set_by_options_are_checked_on_the_instance(folder):
    by_options = ECHO + "    def __init__(self, options=None):\n        super().__init__(options)\n"
    by_options += "        self.stages = tuple(Stage(f's{k}') for k in range(self.options.times))\n"
    (folder / "echo.py").write_text(by_options)
    with pytest.raises(AppRefused, match="app 'echo': stage 's0' has no method of that name"):
        create("echo", {}, [folder])


class Fine(App):
    name = "fine"
    stages = (Stage("one"), Stage("two", StageKind.STATEFUL), Stage("three"))

    def one(self, value):
        return value

    def two(self, value, state):
        return value, state

    @staticmethod
    def three(value):
        return value


def variant(**attributes):
    return type("Variant", (Fine,), attributes)


async def waiting(self, value):
    return value


async def waiting_with_state(self, value, state):
    return value, state


def generating(self, value, state):
    yield value, state


keyed = partial(Stage, "two", StageKind.PARTITIONED)
KEYED = {"stages": (Stage("one"), keyed()), "two_key": lambda self, value: value}


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"options_model": Options},
        {"one": waiting, "stages": (Stage("one", concurrency=50),)},
        {"stages": (Stage("one", batch=True), Stage("two", StageKind.STATEFUL, batch=True))},
        KEYED,
        {"stages": (Stage("one", batch=True, columns=(("id", "int64"), ("price", "double"))),)},
    ],
)
def test_ways_to_call_a_stage_are_accepted(attributes):
    assert faults_of(variant(**attributes)) == faults_of(variant(**attributes)()) == []


@pytest.mark.parametrize(
    ("attributes", "sentence"),
    [
        ({"one": waiting, "stages": (Stage("one", batch=True),)}, "stage 'one' is an async def and a batch stage"),
        ({"two": waiting_with_state}, "stage 'two' is an async def and stateful"),
        ({"one": waiting, "stages": (Stage("one", concurrency=0),)}, "concurrency = 0; must be a whole number, 1 or"),
        ({"stages": (Stage("one", time_limit_s=0),)}, "has time_limit_s = 0; must be seconds above 0, or None"),
        ({"stages": (Stage("one", concurrency=2),)}, "has concurrency = 2 and is no async def"),
        ({"stages": (Stage("one", price=-1),)}, "has price = -1; must be a number from 0 on"),
        ({"stages": (Stage("one", cpus=0),)}, "stage 'one' has cpus = 0; must be a number above 0, or None to reserve"),
        ({"stages": (Stage("one", gpus=1.5),)}, "stage 'one' has gpus = 1.5; must be a share of one GPU from 0 to 1"),
        ({"stages": (Stage("one", memory="2 GX"),)}, "stage 'one' has memory = '2 GX'; must be a number of bytes"),
        ({"stages": (Stage("one", custom={"x": 0}),)}, "stage 'one' has custom['x'] = 0; must be an amount above 0"),
        (
            {"stages": (Stage("one", custom={"zone": "a"}), Stage("two", StageKind.STATEFUL, custom={"zone": "b"}))},
            "stages ask for nodes with zone=a and zone=b",
        ),
        ({"two": waiting_with_state, **KEYED}, "stage 'two' is an async def and partitioned"),
        ({"stages": KEYED["stages"]}, "stage 'two' is partitioned and needs a method two_key(self, value)"),
        ({**KEYED, "two_key": lambda self: 1}, "its method two_key must take (self, value)"),
        ({**KEYED, "stages": (keyed(partitions=257),)}, "partitions = 257; must be a whole number from 1 to 256"),
        ({**KEYED, "stages": (keyed(partitions=3, bounds=(9, 2)),)}, "bounds = (9, 2); must be 2 keys, ascending"),
        ({**KEYED, "stages": (keyed(batch=True),), "two": lambda self, values: 1}, "take (self, values, states)"),
        ({"two": generating}, "stage 'two' keeps a state and is a generator"),
        ({"stages": (Stage("two", StageKind.STATEFUL, ordered=False),)}, "stateful and has ordered = False; results"),
        ({**KEYED, "stages": (keyed(ordered=False),)}, "is partitioned and has ordered = False; results of a stage"),
        ({"stages": (Stage("one", ordered=False),)}, "is stateless and has ordered = False; its items are processed"),
        ({"stages": (Stage("one", "stateless"),)}, "stage 'one' has kind = 'stateless'; must be StageKind.STATELESS"),
        ({"stages": (Stage("one", columns=(("id", "int64"),)),)}, "has columns, but is not a batch stage"),
        ({"stages": (Stage("one", batch=True, columns=(("id", "text"),)),)}, "has column ('id', 'text'); must be"),
        ({"name": "Not Good"}, "name is 'Not Good'; must be 1 to 64 lower-case letters"),
        ({"options_model": dict}, "options_model is <class 'dict'>; must be a subclass of apps.contract.Options"),
        ({"stages": ()}, "stages is (); must be a tuple of one or more Stage"),
        ({"stages": (Stage("one"), Stage("one"))}, "stage 'one' is listed 2 times"),
        ({"stages": (Stage("one", batch="no"),)}, "stage 'one' has batch = 'no'; must be True or False"),
        ({"stages": (Stage("four"),)}, "stage 'four' has no method of that name"),
        ({"stages": (Stage("setup"),)}, "stage 'setup' has the name of an attribute of App"),
        ({"one": lambda self: 1}, "the method of stateless stage 'one' must take (self, value)"),
        ({"two": lambda self, value: 1}, "the method of stateful stage 'two' must take (self, value, state)"),
    ],
)
def test_class_that_is_not_acceptable_is_told_why(attributes, sentence):
    assert any(sentence in fault for fault in faults_of(variant(**attributes)))


def test_compositions_file_beside_the_app_or_named_or_none(folder):
    app = discover([folder])["echo"]
    assert compositions_file(app) is None
    (folder / "echo.yaml").write_text("app: echo")
    assert compositions_file(app) == folder / "echo.yaml"
    assert compositions_file(variant(compositions_file=Path("named.yaml"))) == Path("named.yaml")


def test_built_in_app_has_the_compositions_that_the_service_ships():
    assert compositions_file(discover()["synthetic"]).parent.name == "compositions"
