"""Do what the documentation says: its commands run, its examples are the real ones, its links lead somewhere."""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from markdown import DOCUMENTS, ROOT, Block, anchors, blocks, commands, links
from pydantic import TypeAdapter

from apps.registry import discover
from compositions.document.loader import load
from lab.benchmarks.daemon import free_port
from profiler.slo import parse_slo
from service.cli.configured import ServiceConfig, read_config
from service.schemas.requests import SloRequest

RUN_ELSEWHERE = {
    r"make run": "tests/integration/test_docs.py::test_the_demo_of_the_readme_runs_on_photos",
    r"make test": ".ci/run::make test",
    r"make check": "Makefile::--output-sync=target lint quick-tests classes",
    r"make setup": ".ci/run::make setup",
    r"docker (build|run) .+": "tests/integration/test_deploy.py::"
    "test_the_image_answers_when_not_root_and_ends_in_order",
    r"(kubectl|helm) .+": "tests/unit/test_kuberay.py::test_all_objects_fit_the_schemas",
    r"docker compose .+": "tests/integration/test_deploy.py::test_the_compose_file_makes_a_cluster_of_apps",
    r"export (RECOMPOSE_TOKEN|RAY_AUTH_TOKEN)=.+": "tests/integration/test_deploy.py::"
    "test_nothing_starts_without_its_token",
    r"\.venv/bin/python docs/scripts/shout\.py": "tests/integration/test_scripts.py::test_a_script_runs_on_ray",
    r"\.venv/bin/python docs/examples/\w+\.py": "tests/integration/test_scripts.py::"
    "test_an_example_prints_what_its_page_shows",
    r"recompose tokens (add|list|revoke).*": "tests/unit/test_api_access.py::"
    "test_tokens_are_added_listed_and_revoked_from_the_command_line",
    r"recompose backup .+": "tests/unit/test_store.py::test_what_is_stored_while_the_service_runs_is_in_the_copy",
    r"\.venv/bin/recompose run (person_recognition|face_recognizer) .+": "tests/integration/test_real_files.py::"
    "test_persons_on_a_users_film_under_an_slo",
    r"\.venv/bin/recompose run (lane_detection|military_server|synthetic) .+": "tests/integration/test_real_files.py::"
    "test_every_composition_gives_what_a_loop_over_the_stages_gives",
    r"\.venv/bin/recompose run b(un)?zip2 .+": "tests/integration/test_real_files.py::"
    "test_a_text_compressed_by_several_workers_is_what_bunzip2_gives_back",
    r"\.venv/bin/recompose ingest ferret .+": "tests/datapipe/test_ingest_spark.py::"
    "test_spark_and_one_process_make_the_same_files",
    r"\.venv/bin/recompose ingest person_recognition .+": "tests/unit/test_faces.py::"
    "test_a_gallery_follows_its_pictures_while_the_app_runs",
    r"\.venv/bin/recompose run ferret --source spark:.+": "tests/datapipe/test_live.py::"
    "test_rows_arrive_once_in_order_though_driver_and_runner_die",
    r"\.venv/bin/(python -m apps\.tpcxbb|recompose run tpcxbb_q\w+) .+": "tests/unit/test_tpcxbb.py::"
    "test_from_the_command_line",
    r"\.venv/bin/python -m datapipe\.datasets\.made_tables .+": "tests/datapipe/test_made_tables.py::"
    "test_rows_are_those_of_one_process",
    r"recompose report .+": "tests/integration/test_report.py::test_the_report_in_a_browser",
    r"recompose telemetry .+": "tests/datapipe/test_telemetry_tables.py::test_a_killed_stream_equals_batch",
    r"recompose backfill .+": "tests/datapipe/test_backfill.py::test_a_killed_backfill_ends_as_the_stream_does",
    r"\.venv/bin/recompose experiment .+": "tests/integration/test_experiments.py::test_all_figures_quickly",
    r"\.venv/bin/recompose run ferret .+": "tests/integration/test_docs.py::test_the_demo_of_the_readme_runs_on_photos",
    r"\.venv/bin/recompose start words --source kafka:.+": "tests/unit/test_cli_service.py::"
    "test_a_topic_of_ones_own_is_read_and_outlives_the_runner",
    r"python -m lab\.benchmarks\.\w+.*": "tests/unit/test_harness.py::test_commands_of_the_documents_are_understood",
}
"""Commands (whole, as patterns) that are not run here, and what runs them, or as much of them as can be run."""
CLIENTS = (
    r"(printf .+ \| |eval \"\$\()?(\.venv/bin/)?recompose (run|check|serve|start|stop|push|results|apps|logs|new|doctor"
    r"|completion|slo|status|watch|decisions|compositions|budget|announce|alerts|trace|runs|compare)\b|curl "
)
"""Commands that are run here."""
OWN_APP = ROOT / "docs" / "own-app"
OF_PROMETHEUS = {"scrape_configs"}
"""What is not ours to load, but YAML as well."""
ids = [str(document.relative_to(ROOT)) for document in DOCUMENTS]
each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=ids)

TERMINAL = r"""
set -euo pipefail
curl() { command curl --fail-with-body --silent --show-error --retry 5 --retry-connrefused "$@"; }
serve() {
  "$@" --port "$PORT" & daemon=$!
  trap 'kill $daemon; wait $daemon' EXIT
  curl --output /dev/null --retry 60 --retry-delay 1 --retry-all-errors "http://127.0.0.1:$PORT/readyz"
}
watch() { timeout --signal=INT 8 "$@" || test $? -eq 124; }
"""


# --- commands ---------------------------------------------------------------------------------------------------------


@each_document
def test_every_command_is_run_by_a_test(document: Path) -> None:
    unknown = [
        f"{place}: {command}"
        for place, command in commands(document)
        if not (_is_run_here(command) or _is_run_elsewhere(command))
    ]
    assert not unknown, "write them so that CLIENTS takes them, or name the test that runs them in RUN_ELSEWHERE"


def _is_run_elsewhere(command: str) -> bool:
    return any(re.fullmatch(pattern, command) for pattern in RUN_ELSEWHERE)


def _is_run_here(command: str) -> bool:
    return bool(re.match(CLIENTS, command)) and not _is_run_elsewhere(command)


@pytest.mark.parametrize("place", sorted(set(RUN_ELSEWHERE.values())))
def test_what_runs_the_other_commands_is_there(place: str) -> None:
    file, _, name = place.partition("::")
    wanted = f"def {name}(" if file.endswith(".py") else name
    assert wanted in (ROOT / file).read_text()


def _run() -> Iterator[Any]:
    """Those with commands to run; the first one for every change."""
    for each in DOCUMENTS:
        if any(_is_run_here(command) for _, command in commands(each)):
            name, first = str(each.relative_to(ROOT)), each.name == "README.md"
            yield pytest.param(each, id=name, marks=[] if first else pytest.mark.long)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("document", [*_run()])
def test_commands_do_what_they_say(document: Path, tmp_path: Path) -> None:
    """All of one document in order, in one shell, from a folder that has all files of the project."""
    for file in ROOT.iterdir():
        (tmp_path / file.name).symlink_to(file)
    port = str(free_port())
    lines = [_for_test(command, port, document) for _, command in commands(document) if _is_run_here(command)]
    script = "\n".join([TERMINAL, *lines])
    own = {"PORT": port, "RECOMPOSE_URL": f"http://127.0.0.1:{port}", "HOME": str(tmp_path / "home")}
    env = {**os.environ, **own, "PATH": f"{ROOT}/.venv/bin:{os.environ['PATH']}"}
    shell: dict[str, Any] = {"cwd": tmp_path, "env": env, "capture_output": True, "text": True}
    ran = subprocess.run(["bash", "-x"], input=script, timeout=280, check=False, **shell)
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"


def _for_test(command: str, port: str, document: Path) -> str:
    """A run is on Ray where the README shows it; elsewhere its workers are threads, which spares a Ray each."""
    if document.name != "README.md":
        command = re.sub(r"recompose run\b", "recompose run --pool local", command)
    command = re.sub(r"(localhost|127\.0\.0\.1):8080", f"127.0.0.1:{port}", command)
    if re.search(r"recompose serve\b", command):
        return f"serve {command}"
    return f"watch {command}" if re.search("--watch|recompose watch", command) else command


@pytest.mark.long
@pytest.mark.timeout(180)
def test_the_demo_of_the_readme_runs_on_photos() -> None:
    """``make run``, after its setup, with shorter steps."""
    command = [ROOT / ".venv" / "bin" / "recompose", "demo", "ferret", "--steps", "2", "5", "3"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert ran.returncode == 0, ran.stderr
    items = r"^items +accepted ([1-9][\d,]*), delivered \1, failed 0, .*lost 0, misordered 0"
    assert re.search(items, ran.stdout, re.M), ran.stdout


def test_the_ten_lines_of_the_readme_run(tmp_path: Path) -> None:
    (block,) = blocks(ROOT / "README.md", "python")
    assert len([line for line in block.text.splitlines() if line]) <= 10
    (tmp_path / "ten.py").write_text(block.text)
    ran = subprocess.run([sys.executable, "ten.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.stdout.split() == ["TO", "BE", "OR", "NOT", "TO", "BE"], ran.stderr


# --- examples ---------------------------------------------------------------------------------------------------------


def examples(language: str) -> list[Block]:
    return [block for document in DOCUMENTS for block in blocks(document, language)]


@pytest.mark.parametrize("block", examples("python"), ids=lambda block: block.place)
def test_python_is_python_and_an_app_is_the_one_that_is_tested(block: Block) -> None:
    classes = [node for node in ast.parse(block.text).body if isinstance(node, ast.ClassDef)]
    for each in classes:
        if "App" in [ast.unparse(base) for base in each.bases]:
            tested = (OWN_APP / f"{each.name.lower()}.py").read_text()
            assert ast.dump(each) in ast.dump(ast.parse(tested))
            exec(compile(block.text, block.place, "exec"), {"__file__": __file__, "__name__": "example"})


def test_the_configuration_of_the_documentation_is_accepted() -> None:
    config = read_config(ROOT / "docs" / "service.yaml")
    assert [app.objective is not None for app in config.apps.values()] == [True, True]
    assert config.apps.keys() <= discover([OWN_APP]).keys()


def test_the_first_hour_is_at_most_twenty_commands() -> None:
    assert len(commands(ROOT / "docs" / "start" / "first-hour.md")) <= 20


@pytest.mark.parametrize("block", examples("yaml"), ids=lambda block: block.place)
def test_yaml_loads(block: Block, tmp_path: Path) -> None:
    keys = yaml.safe_load(block.text).keys()
    if keys == OF_PROMETHEUS:
        return
    if keys <= ServiceConfig.model_fields.keys():
        (tmp_path / "service.yaml").write_text(block.text)
        assert read_config(tmp_path / "service.yaml")
        return
    stages = {name: app.stages for name, app in discover([OWN_APP]).items()}
    document = load(block.text, stages)
    assert document.compositions
    if (file := OWN_APP / f"{document.app}.yaml").is_file():
        assert document == load(file.read_text(), stages)


def test_the_words_of_the_command_line_and_the_body_beside_them_ask_for_the_same_objective() -> None:
    text = (ROOT / "docs" / "guide" / "objectives.md").read_text()
    rows = re.findall(r"^\|[^|]+\| `([^`' ]+)` \| `(\{\"metric[^`]+\})` \|$", text, re.MULTILINE)
    assert len(rows) == 6
    for words, body in rows:
        asked = TypeAdapter(SloRequest).validate_python({"app": "ferret", **json.loads(body)})
        assert asked.slo() == parse_slo(words)


# --- words and links --------------------------------------------------------------------------------------------------


@each_document
def test_links_lead_somewhere(document: Path) -> None:
    for path, anchor in links(document):
        target = document.parent / path if path else document
        assert target.resolve().is_relative_to(ROOT), f"{path} leads out of the project"
        assert target.exists(), f"{path} is not there"
        assert not anchor or anchor in anchors(target), f"{path} has no heading for #{anchor}"


@each_document
def test_no_place_of_one_machine_and_no_registry_is_named(document: Path) -> None:
    of_this_machine = "|".join(re.escape(str(place)) + r"\b" for place in (ROOT, Path.home()))
    names = rf"{of_this_machine}|/(?:home|Users)/\w|(?<![(/])\.\./\w|index-url|find-links|://[^\s)]*/simple"
    assert re.findall(names, document.read_text()) == []


def test_no_document_is_unfinished() -> None:
    unfinished = {each.name: re.findall(r"TODO|FIXME|[A-Z]+_TABLE|lorem", each.read_text()) for each in DOCUMENTS}
    assert {name: found for name, found in unfinished.items() if found} == {}
