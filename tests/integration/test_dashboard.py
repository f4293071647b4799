"""The dashboard in a real browser, on a daemon that plays scenes."""

import re
from pathlib import Path

import pytest
from browser import CHROMIUM, DRIVER, Browser
from dashboard_rig import LATENCY, PUSHED, SceneDaemon, page, scenes
from dashboard_scenes import NOTICES, SCENES
from selenium.webdriver import Chrome as Driver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver: make browser")
WIDE = "return document.documentElement.scrollWidth"
SMALL = """
const kinds = "button, select, summary, input:not([type=checkbox]), label:has(> input), nav a";
const touched = document.querySelectorAll(kinds);
return [...touched].filter((each) => each.checkVisibility() && each.getBoundingClientRect().height < 43.5)
  .map((each) => `${each.tagName} ${each.className} ${each.innerText}: ${each.getBoundingClientRect().height}`);
"""
LIVE_COLOURS = """
const faded = (each) => each && (getComputedStyle(each).filter !== "none" || faded(each.parentElement));
return [...document.querySelectorAll("main *, #connection *")].flatMap((each) => {
  const { color, backgroundColor, borderTopColor, borderLeftColor } = getComputedStyle(each);
  return [color, backgroundColor, borderTopColor, borderLeftColor].some((text) => {
    const [red, green, blue, alpha] = text.match(/[\\d.]+/g).map(Number);
    return alpha !== 0 && green > red + 40 && green > blue + 25;
  }) && each.checkVisibility() && !faded(each) ? [`${each.tagName}.${each.className}`] : [];
});
"""
SIZES = ((1440, 900), (1024, 768), (390, 844))
COLOURS = ("color-contrast", "link-in-text-block")
"""Rules of axe-core that depend on the colours."""
MOVING = "return document.getAnimations().filter((each) => each.playState === 'running').length"
SLO, MODE, INPUT, RUN, COMPOSITIONS = "#act-slo", "#act-mode", "#act-input", "#act-run", "#act-compositions"


def test_the_overview_has_a_card_for_every_app_the_worst_first_sums_and_shares_of_a_budget(
    daemon: SceneDaemon, seen: Browser
) -> None:
    five, one, eight = ({"workers": count, "cores": None} for count in (5, 1, 8))
    more = {"more": one, "reached_with_more": 1.0, "composition_with_more": "13", "reason": "it gains most"}
    daemon.send("POST", "/slo", LATENCY)
    daemon.ferret()
    seen.open()
    seen.sees("SLO violated", ".card[data-state=stable]")
    card = seen.texts(".card[data-state=stable]")[0]
    assert "Seq(segment)-Seq(extract)-Seq(vectorize)-Seq(rank)" in card
    assert re.search(r"[\d.,]+ ms / 480 ms", card), "the latency against its bound"
    assert "latency ≤ 480 ms" in card
    seen.until(lambda: seen.attribute(".spark .output", "d").count("L") > 80, "five minutes of history")
    assert "Stopped" in seen.texts(".card[data-state=stopped]")[0]
    seen.find(".card[data-state=stable] a").click()
    seen.sees("bottleneck", ".drawing")
    daemon.send("POST", "/slo", LATENCY)
    seen.open("#/")
    seen.sees("1 of 2 running · 1 met · 5 workers in use + 1 spare on 2 cores, 1.", ".fleet")
    seen.sees("87 % of the time", ".card")
    seen.sees("5 + 1 on 2 cores", ".card")
    daemon.send("POST", "/apps/synthetic/start", PUSHED)
    daemon.send("POST", "/apps/synthetic/items", {"slo_status": "violated"})
    seen.until(lambda: seen.texts(".card h2")[0].startswith("synthetic"), "the worst first")
    seen.sees("2 of 2 running · 1 violated · 1 met", ".fleet")
    daemon.ferret(grant={**five, "total": eight, "reached": 0.83, **more})
    seen.sees("Budget 8 workers · ferret 5 workers: 83 % of its objective, 100 % with 1 worker more", ".shares")


def test_without_apps_it_says_what_to_do(tmp_path: Path, chromium: Driver) -> None:
    with scenes(tmp_path, apps=()) as nothing, page(nothing.url, chromium) as seen:
        seen.open()
        seen.sees("recompose serve --apps FOLDER")


def test_several_nodes_are_a_table(daemon: SceneDaemon, tmp_path: Path, chromium: Driver) -> None:
    (state := tmp_path / "two").mkdir()
    far = ["10.0.0.5", "up", "3.5", "1", "0.5 of 1 · 25 %", "1.0 GiB of 8.0 GiB", "3.0 GiB of 9.0 GiB", "–"]
    row = "#nodes-title + .scroll tr:first-child > :is(th, td)"
    with scenes(state, nodes=True) as two, page(two.url, chromium) as seen:
        seen.open()
        seen.until(lambda: seen.texts(row)[-8:] == far, "the far node")
    with page(daemon.url, chromium) as seen:
        seen.open()
        seen.sees("ferret", ".card")
        assert seen.run("return document.querySelector('#nodes-title').offsetParent === null"), "one node is no table"


@pytest.mark.parametrize("seen", [(404,)], indirect=True)
def test_an_app_that_is_not_there(seen: Browser) -> None:
    seen.open("#/app/nothing")
    seen.sees("there is no app 'nothing'; registered are ferret, synthetic")


def test_an_slo_through_the_form_changes_the_composition(ferret: Browser) -> None:
    drawing = ferret.attribute(".drawing svg", "aria-label")
    assert "rank" in drawing
    assert "the bottleneck" in drawing
    assert "14 waiting" in drawing
    assert not ferret.all(".switch-mark")
    ferret.write("Target", "400", SLO)
    ferret.press("Set SLO", SLO)
    ferret.sees("Set: mean latency ≤ 480 ms.", SLO)
    ferret.sees("SLO met", ".head")
    ferret.until(lambda: len(ferret.all(".drawing .group")) == 3, "two stages merged into one group")
    ferret.until(lambda: len(ferret.all(".switch-mark")) == 1, "the mark of the switch")
    assert len(ferret.all(".drawing .copy")) == 2, "two groups with a second replica behind the first"
    assert "segment" in ferret.attribute(".drawing svg", "aria-label").split("merged with")[0]

    ferret.sees("1 → 13", ".decisions")
    ferret.find(".decisions .decision summary").click()
    ferret.until(lambda: len(ferret.texts(".decisions details[open] td.why")) == 15, "a reason for each candidate")
    assert all(ferret.texts(".decisions details[open] td.why"))
    assert "predicted 190 ms, measured 181 ms" in ferret.texts(".facts")[0]
    assert re.search(r"expected within\s+310 ms\s+took\s+255 ms", ferret.texts(".drain")[0])
    ferret.sees("switched from composition 1 to 13", "#news")
    assert ferret.run("return performance.getEntriesByName('recompose-first')[0].startTime") > 0, "its first figures"
    assert sum(ferret.run("return performance.getEntriesByType('resource').map((e) => e.encodedBodySize)")) <= 5e6


def test_bundle_sizes_and_workers_between_stages_are_drawn(ferret: Browser, daemon: SceneDaemon) -> None:
    together = {"items": "auto", "bytes": 4194304, "linger_ms": 0.0, "controller": "slo-batch", "size": 64}
    assert "Bundle size" not in " ".join(ferret.texts(".charts"))
    daemon.ferret(batching={**together, "reason": "0.2 + 0.01 · 64 ms of work"})
    ferret.sees("Bundle size", ".charts")
    assert {"Timeline", "Controls"} <= {*ferret.texts(".jumps button")} & {*ferret.texts(".app h2")}
    ferret.sees("Up to 64 items per bundle", ".pipeline")
    stages = ("segment", "extract", "vectorize", "rank")
    groups = [{"stages": [stage], "pattern": "par", "replicas": 4} for stage in stages]
    dyn = {"workers": 4, "scheduler": "lp", "settings": {"slice_s": 0.002, "least_waiting": 1}}
    free = {"name": "free", "notation": "Dyn*4", "workers": 4, "groups": groups, "dyn": dyn}
    at = {"pid": 1, "node": "here", "outstanding": 1, "restarts": 0}
    workers = [{**at, "id": f"w{number}", "group": group} for number, group in enumerate((3, 3, 1, None))]
    daemon.ferret(composition=free, workers=workers)
    ferret.sees("4 workers go from stage to stage as scheduler lp says, 1 between stages", ".drawing")
    ferret.sees("Scheduler lp with slice_s 0.002, least_waiting 1", ".pipeline")
    assert len(ferret.all(".drawing .lane .worker")) == 1
    assert not ferret.all(".drawing .copy")
    assert re.search(r"rank (9\d|100)", ferret.attribute(".drawing svg", "aria-label"))
    assert "2 workers at it" in ferret.attribute(".drawing svg", "aria-label")
    ferret.unfold("#fold-workers")
    ferret.sees("between stages", "#fold-workers table")


@pytest.mark.parametrize("seen", [(422,)], indirect=True)
def test_refusals_are_the_sentences_of_the_service(ferret: Browser, daemon: SceneDaemon) -> None:
    ferret.write("Target", "fast", SLO)
    ferret.write("Tolerance beyond the target", "250", SLO)
    ferret.press("Set SLO", SLO)
    body = {"app": "ferret", "metric": "latency", "target": "fast", "threshold": 2.5, "statistic": "mean"}
    answer = daemon.http.post("/slo", json=body).json()
    ferret.sees("Refused: 2 fields are marked above.", SLO)
    for fault in answer["errors"]:
        assert ferret.texts(SLO)[0].count(fault["msg"]) == 1
    wrong = ferret.all(f"{SLO} [aria-invalid=true]")
    assert [each.get_attribute("name") for each in wrong] == ["target", "threshold"]
    ferret.until(lambda: ferret.run("return document.activeElement.name") == "target", "the focus on the first fault")
    assert daemon.http.get("/slo/ferret").status_code == 404
    ferret.unfold(INPUT)
    ferret.choose("Items arrive", "wave", INPUT)
    ferret.write("Highest rate", "25", INPUT)
    ferret.press("Change input", INPUT)
    ferret.sees("The input has changed.", INPUT)
    ferret.choose("Items arrive", "spike", INPUT)
    ferret.write("Lowest rate", "30", INPUT)
    ferret.press("Change input", INPUT)
    ferret.sees("must be 0 <= min_per_s < max_per_s", INPUT)


def test_an_slo_is_shown_in_the_form_and_can_be_removed(daemon: SceneDaemon, seen: Browser) -> None:
    daemon.send("POST", "/slo", {"app": "ferret", "metric": "throughput", "target": 8.5, "threshold": 0.1})
    daemon.ferret()
    seen.open("#/app/ferret")
    seen.until(lambda: seen.field("Target", SLO).get_attribute("value") == "8.5", "the target")
    seen.press("Remove", SLO)
    seen.sees("Removed.", SLO)
    seen.sees("no SLO", ".head")
    assert daemon.http.get("/slo/ferret").status_code == 404
    seen.field("equal to the input rate", SLO).click()
    seen.press("Set SLO", SLO)
    seen.until(lambda: daemon.http.get("/slo/ferret").json().get("target") == "input_rate", "the rate as the target")


def test_pin_observe_stop_and_start(ferret: Browser, daemon: SceneDaemon) -> None:
    ferret.unfold(MODE)
    ferret.choose("The manager", "keeps one composition", MODE)
    ferret.choose("Composition", "12 · Par(segment)-Par(extract)-Par(vectorize)-Par(rank)", MODE)
    ferret.press("Set mode", MODE)
    ferret.sees("Pinned to 12.", MODE)
    ferret.sees("pinned", ".head")
    ferret.until(lambda: len(ferret.all(".drawing .copy")) == 4, "composition 12")
    ferret.choose("The manager", "observes: decides, but does not act", MODE)
    ferret.press("Set mode", MODE)
    ferret.sees("does not act", ".notices")
    assert daemon.status("ferret")["mode"] == "observe"
    ferret.unfold(RUN)
    ferret.press("Stop", RUN)
    ferret.sees("Nothing runs. Start it below", ".notices")
    ferret.until(lambda: ferret.find("svg.still"), "a pipeline that stands still")
    ferret.unfold(RUN)
    ferret.choose("First composition", "5 · Seq(segment)-Seq(extract)-Seq(vectorize)-Par(rank)", RUN)
    ferret.write("Rate", "7", RUN)
    ferret.write("Options, as JSON", '{"top_k": 3}', RUN)
    ferret.choose("Items from", "POST /apps/…/items", RUN)
    ferret.press("Start", RUN)
    ferret.sees("stable", ".head")
    status = daemon.status("ferret")
    assert status["composition"]["name"] == "5"


@pytest.mark.parametrize("seen", [(422,)], indirect=True)
def test_a_composition_is_added_and_removed_and_faulty_lines_are_marked(ferret: Browser, daemon: SceneDaemon) -> None:
    ferret.unfold(COMPOSITIONS)
    text = ferret.find("#yaml")
    ferret.until(lambda: "app: ferret" in text.get_attribute("value"), "an example to begin with")
    ferret.press("Add", COMPOSITIONS)
    ferret.sees("The manager can choose them from now on.", COMPOSITIONS)
    ferret.run("arguments[0].click()", ferret.find("[aria-label='Remove composition mine']"))
    ferret.sees("Composition mine was removed.", COMPOSITIONS)
    assert "mine" not in [each["name"] for each in daemon.get("/compositions/ferret")]
    text.clear()
    text.send_keys("app: ferret\ncompositions:\n- name: good\nnotation: Seq-Seq-Seq-Par\n".replace("\nnot", "\n  not"))
    text.send_keys("- name: bad\n  notation: Seq-Nothing\n")
    ferret.press("Add", COMPOSITIONS)
    ferret.until(lambda: ferret.find(".faults li"), "a fault")
    assert ferret.texts(".numbers .bad") == ["● 6"]
    assert "compositions[1].notation" in ferret.texts(".faults")[0]
    ferret.press("Line 6", COMPOSITIONS)
    chosen = "const e = arguments[0]; return e.value.slice(e.selectionStart, e.selectionEnd)"
    assert ferret.run(chosen, text).strip() == "notation: Seq-Nothing"
    assert "good" not in [each["name"] for each in daemon.get("/compositions/ferret")]


def test_what_if(ferret: Browser, daemon: SceneDaemon) -> None:
    daemon.ferret(cost={**daemon.status("ferret")["cost"], "others_cores": 1.62}, queued=3)
    ferret.until(lambda: ferret.texts(".tile b")[3] == "3", "the page to know it")
    ferret.write("Cores", "8", ".what-if")
    ferret.write("Input rate", "15", ".what-if")
    ferret.press("Predict", ".what-if")
    ferret.sees("The manager would choose", ".what-if")
    rows = ".what-if [aria-label=Predictions] tbody tr"
    ferret.until(lambda: len(ferret.texts(rows)) == 15, "a row for each composition")
    assert "manager's choice" in ferret.texts(".what-if tbody tr")[0]
    assert "19.9 – 21.6" in ferret.texts(".what-if")[0]
    ferret.sees("Now 2.4 busy workers share a core", ".times")
    assert ferret.attribute(".what-if .result", "data-kind") == "good"
    ferret.sees("Something else keeps 1.6 of the 2 cores busy.", ".what-if .notice.warn")
    ferret.press("Workers", ".what-if")
    ferret.press("Workers ▲", ".what-if")
    workers = [int(each) for each in ferret.texts(".what-if [aria-label=Predictions] tbody td:nth-child(2)")]
    assert workers == sorted(workers, reverse=True)


def test_the_daemon_goes_and_comes_back(daemon: SceneDaemon, chromium: Driver) -> None:
    daemon.ferret()
    with page(daemon.url, chromium, (503,), lost=True) as seen:
        seen.open("#/app/ferret")
        seen.sees("live", "#connection")
        daemon.kill()
        seen.sees("reconnecting", "#connection")
        seen.sees("The service does not answer.", ".app")
        assert seen.faults_of_access() == []
        assert seen.run(LIVE_COLOURS) == [], "nothing that is old looks live"
        assert seen.run("return document.querySelectorAll('form:not([inert], [inert] *)').length") == 0
        seen.until(lambda: seen.texts(".tile b")[0] != "–", "the last figures, which stay")
        seen.note_requests()
        before = len(seen.asked)
        daemon.start()
        seen.sees("live", "#connection")
        seen.until(lambda: "does not answer" not in seen.texts(".app")[0], "the notice to go")
        seen.until(lambda: _asked_since(seen, before, "/history/ferret?from="), "the gap to be filled")
        seen.until(lambda: seen.attribute(".line.input", "d").count("M") == 1, "a line without a gap")


def _asked_since(seen: Browser, before: int, text: str) -> bool:
    seen.note_requests()
    return any(text in url for url in seen.asked[before:])


def test_with_a_token_there_is_nothing_without_it(tmp_path: Path, chromium: Driver) -> None:
    with scenes(tmp_path, token="s3cret") as guarded, page(guarded.url, chromium, refused=(401,)) as seen:
        guarded.ferret()
        seen.open("#/app/ferret")
        seen.sees("Sign in", "form")
        assert not seen.all(".app, .card")
        assert "segment" not in seen.driver.page_source
        seen.write("Token", "wrong")
        seen.press("Sign in")
        seen.sees("does not accept this token", "form")
        seen.write("Token", "s3cret")
        seen.press("Sign in")
        seen.sees("segment", ".drawing")
        assert seen.run("return Object.values(sessionStorage)") == ["s3cret"]
        assert "s3cret" not in str(seen.run("return [Object.values(localStorage), document.cookie, location.href]"))
        seen.driver.refresh()
        seen.sees("segment", ".drawing")
        seen.driver.switch_to.new_window("tab")
        seen.open("#/app/ferret")
        seen.sees("Sign in", "form")


def test_by_keyboard_alone(daemon: SceneDaemon, seen: Browser) -> None:
    daemon.ferret()
    seen.open()
    seen.sees("ferret", ".card")
    assert _tab_to(seen, "Skip to content", 1)
    assert _tab_to(seen, "ferret", 6)
    _press(seen, Keys.ENTER)
    seen.sees("rank", ".drawing")
    seen.run("document.getElementById('main').focus()")
    assert _tab_to(seen, "target", 60), "the SLO form, by its target"
    _press(seen, "400", Keys.ENTER)
    seen.sees("SLO met", ".head")
    seen.until(lambda: seen.all(".chart .line.input[d*=L]"), "charts with something to point at")
    seen.find(".charts svg").send_keys(Keys.ARROW_LEFT)
    seen.until(lambda: len(seen.all(".chart .cursor")) == 6, "one cursor in all charts")
    seen.find(".charts svg").send_keys(Keys.ESCAPE)
    seen.until(lambda: not seen.all(".chart .cursor"), "no cursor")


def _press(seen: Browser, *keys: str) -> None:
    """Whatever has the focus gets them: the page may draw it anew meanwhile."""
    ActionChains(seen.driver).send_keys(*keys).perform()


def _tab_to(seen: Browser, what: str, within: int) -> bool:
    for _ in range(within):
        _press(seen, Keys.TAB)
        if what in seen.run("const here = document.activeElement; return [here.innerText, here.name]"):
            return True
    return False


@pytest.mark.parametrize(
    "states", [["overloaded"], pytest.param([*SCENES], marks=pytest.mark.long)], ids=["one", "all"]
)
def test_every_state_is_readable_wide_and_narrow(daemon: SceneDaemon, seen: Browser, states: list[str]) -> None:
    """By axe-core in both schemes, nothing wider than the page, nothing that moves for who asks for no motion."""
    daemon.ferret()
    daemon.send("POST", "/slo", LATENCY)
    seen.colours("light")
    for name in states:
        daemon.ferret(**SCENES[name])
        seen.resize(1440, 900)
        seen.open("#/app/ferret")
        seen.driver.refresh()
        seen.sees("segment", ".drawing")
        seen.sees(NOTICES.get(name, "ferret"), ".app")
        seen.sees("1 → 13", ".decisions")
        if name == "stable":
            seen.unfold(".decision details")
            seen.press("Predict", ".what-if")
            seen.sees("manager's choice", ".what-if")
        seen.until(lambda: seen.all(".chart .line.input[d*=L]"), "charts")
        assert seen.run(MOVING) == 0
        _readable(seen, name)
        daemon.send("POST", "/apps/ferret/items", {})
        daemon.send("POST", "/apps/ferret/stop", {})
        daemon.send("POST", "/apps/ferret/start", {"source": {"kind": "push"}, "composition": "1"})
        daemon.send("POST", "/slo", LATENCY)
    seen.open("#/")
    seen.sees("ferret", ".card")
    _readable(seen, "overview")


def _readable(seen: Browser, name: str) -> None:
    """Whole audits where the layout is another one; in the dark nothing but colours is."""
    for width, height in SIZES:
        seen.resize(width, height)
        seen.until(lambda width=width: seen.run(WIDE) <= width, f"{name}: {width} px wide")
        if width == 390:
            assert seen.run(SMALL) == [], f"{name}: what is touched is 44 pixels high"
        if width != 1024 or name in ("overloaded", "overview"):  # between wide and narrow only the columns differ
            assert seen.faults_of_access() == []
    seen.colours("dark")
    for width, height in SIZES[::2]:
        seen.resize(width, height)
        assert seen.faults_of_access(COLOURS) == []
    seen.colours("light")
