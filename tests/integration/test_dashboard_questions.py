"""The four questions in a real browser: why, what it costs, where the load is too high, and when."""

import re
from pathlib import Path
from time import time
from urllib.parse import quote

import pytest
from browser import CHROMIUM, DRIVER, Browser
from dashboard_rig import LATENCY, SceneDaemon, page, scenes
from dashboard_scenes import NOTICES, SCENES
from selenium.webdriver import Chrome as Driver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from written_telemetry import write, write_items

from datapipe.report.plots import hue_of
from service.schemas.base import time_text

pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver: make browser")
HEIGHTS = """
const ends = [...document.querySelectorAll(arguments[0])].map((path) => path.getAttribute("d").split(" ").pop());
return new Set(ends).size;
"""
"""How many there are of the paths' last points: a path is in pieces where the page heard nothing for a while."""
CLASSES = "return [...document.querySelectorAll(arguments[0])].map((each) => each.getAttribute('class'))"
ENTRIES = ".decisions li:not(.episode)"
COMPOSITIONS = "#act-compositions"
PROBE = '<img src=x onerror="window.ran=1"><script>window.ran=1</script>'


@pytest.mark.parametrize("seen", [(404,)], indirect=True)
def test_why_and_what_it_costs_stand_under_the_figures(ferret: Browser, daemon: SceneDaemon) -> None:
    daemon.send("POST", "/slo", LATENCY)
    ferret.sees("1 → 13", ".why")
    assert "Seq(segment,extract)-Par(vectorize)-Par(rank)" in ferret.texts(".why")[0]
    assert "mean latency 2100 ms is above 480 ms" in ferret.texts(".why")[0]
    ferret.sees("Since then no change: 13 has the fewest workers", ".why")
    tiles = " ".join(ferret.texts(".tile"))
    assert "5 + 1 spare" in tiles
    assert "on 2 cores, 1." in tiles
    assert "40.2 min" in tiles
    assert "87 %" in tiles
    ferret.find(".why a").click()
    ferret.sees("Gap in the output", ".decisions .pinned details[open]")
    here = str(ferret.run("return location.hash"))
    ferret.driver.refresh()
    ferret.sees("Gap in the output", ".decisions .pinned details[open]")
    last = daemon.status("ferret")["last_decision"]
    assert here == f"#/app/ferret/decision/{last['id']}"
    ferret.until(lambda: "13Seq(segment,extract)" in "".join(ferret.texts(".pipeline .row")[0].split()), "what runs")
    assert "not as decided last" not in ferret.texts(".why")[0]
    daemon.ferret(last_decision={**last, "to": "12"})
    ferret.sees("Runs 13", ".why")
    ferret.open("#/app/ferret/decision/999")
    ferret.sees("Decision 999 does not exist", ".app")


BURST = """
const done = arguments[0];
Promise.all(["decisions", "names"].map((name) => import(`/dashboard/${name}.js`))).then(([decisions, names]) => {
  const at = (second) => new Date(1e12 + 1000 * second).toISOString();
  const decided = (second, k) => ({
    kind: "decision", id: k, at: at(second), from: "a", to: k % 2 ? "a" : "b", reason: "late", trigger: "slo_violated",
    transition: null, infeasible: false, acted: true, duration_s: 1, trials: 0, gap_ms: 1, outcome: null,
    drain_estimate_ms: null, drain_actual_ms: null, candidates: [],
  });
  const list = new decisions.Decisions("ferret", new names.Names());
  list.add([0, 300, 330, 345, 390, 700, 750, 800].map(decided));
  const entries = [...list.list.children].map((each) => [each.className, each.querySelectorAll("li").length]);
  list.add([{ ...decided(395, 9) }]);
  const burst = list.list.querySelector(".episode");
  done([entries, burst.querySelector("summary").textContent, burst.querySelectorAll("li").length, list.items.size]);
});
"""


def test_a_burst_of_decisions_is_one_entry_and_they_are_shown_in_pages(ferret: Browser, daemon: SceneDaemon) -> None:
    """Four decisions that follow each other within a minute; three are still told one by one. And whoever reads on does
    not make the page grow."""
    entries, told, inside, items = ferret.driver.execute_async_script(BURST)
    assert entries == [["decision", 0]] * 3 + [["episode", 4], ["decision", 0]]
    assert "5 decisions in 95 s" in told
    assert "Last: stays with a: late" in told
    assert inside == 5
    assert items == 10
    assert ferret.driver.execute_async_script(READ_ON) == [1000, 1000, 1000, True]
    for _ in range(23):
        for name in ("7", "1"):
            daemon.send("PUT", "/apps/ferret/mode", {"mode": "pinned", "composition": name})
    ferret.until(lambda: len(ferret.all(ENTRIES)) >= 37, "a page of them")
    shown = len(ferret.all(ENTRIES))
    ferret.press("Show older entries", ".panel:has(.decisions)")
    ferret.until(lambda: len(ferret.all(ENTRIES)) >= 47 > shown, "all of them")
    ferret.choose("Show", "only “no change”", ".panel:has(.decisions)")
    ferret.until(lambda: ferret.all(".decisions .no_change") and not ferret.all(".decisions .decision"), "no decisions")


READ_ON = """
const done = arguments[0];
Promise.all(["decisions", "names"].map((name) => import(`/dashboard/${name}.js`))).then(([decisions, names]) => {
  const list = new decisions.Decisions("ferret", new names.Names());
  const at = (number) => new Date(1e12 + 1000 * number).toISOString();
  const quiet = (_, k) => ({ kind: "no_change", at: at(k), first_at: at(k), count: 1, reason: "met" });
  const entries = Array.from({ length: 1100 }, quiet);
  list.deep = true;
  list.add(entries.slice(0, 700));
  list.add(entries.slice(700));
  const newest = list.list.firstChild.querySelector("time").dateTime === at(1099);
  done([list.list.children.length, list.entries.size, list.items.size, newest]);
});
"""


def test_a_load_too_high_looks_like_one(ferret: Browser, daemon: SceneDaemon) -> None:
    daemon.send("POST", "/slo", LATENCY)
    daemon.ferret(**SCENES["overloaded"])
    ferret.sees(NOTICES["overloaded"], ".load")
    assert "Source held back." in ferret.texts(".load")[0]
    assert ferret.texts(".tile[data-slo=violated] dt") == ["Latency"], "what misses its objective is coloured"
    tiles = " ".join(ferret.texts(".tile"))
    for told in ("only 21.3/s admitted, 118 missed", "mean, 4.4 times its bound 480 ms", "source 12.4 s behind"):
        assert told in tiles
    assert ferret.all(".drawing .group.pressed.much")
    assert "it holds items back" in ferret.attribute(".drawing svg", "aria-label")
    daemon.ferret(slo_status="unknown")
    ferret.sees("SLO violated until", ".head")
    ferret.sees("measuring again", ".head")
    within = {"mean": 300.0, "p50": 290.0, "p95": 400.0, "p99": 450.0}
    daemon.ferret(slo_status="violated", latency_ms=within, queued=9)
    ferret.sees("mean, bound 480 ms; waiting items will be late", ".tile[data-slo=violated]")


def test_shedding_is_said_while_it_lasts(ferret: Browser, daemon: SceneDaemon) -> None:
    items = {"accepted": 1300, "delivered": 1200, "failed": 0, "shed": 0}
    rates = {"offered_per_s": 40.0, "admitted_per_s": 21.3, "throughput_per_s": 20.9, "queued": 64}
    daemon.ferret(items=items, **rates)
    ferret.sees("1,300 in", ".tile")
    daemon.ferret(items={**items, "shed": 37}, **rates)
    ferret.sees("Shedding. 37 items were dropped in the last 10 seconds: 40.0/s offered, 21.3/s admitted, ", ".load")
    assert any("37 dropped" in each for each in ferret.texts(".tile[data-slo=infeasible]"))
    daemon.ferret(items={**items, "shed": 37}, **rates, updated_at=time_text(time() + 12))
    ferret.until(lambda: not "".join(ferret.texts(".load")), "nothing was dropped of late")
    assert any("37 dropped" in each for each in ferret.texts(".tile")), "what is lost is still counted"


def test_an_alert_is_shown_until_it_ends(ferret: Browser, daemon: SceneDaemon) -> None:
    """The rule is the service's own; only the backlog is made up."""
    daemon.send("PUT", "/alerts", {"rules": [{"about": "backlog", "above": 100, "for_s": 0}]})
    daemon.ferret(queued=214)
    ferret.sees("Alert since", ".notice.bad")
    assert "214 items wait, which is more than 100" in ferret.texts(".notice.bad")[0]
    ferret.sees("Alert of ferret", "#news")
    assert "alert" in ferret.texts(".head .chip")
    ferret.open("#/")
    ferret.sees("Alert: ", ".card")
    daemon.ferret(queued=3)
    ferret.until(lambda: not any("Alert" in each for each in ferret.texts(".card")), "it is over")
    ferret.open("#/app/ferret")
    ferret.sees("rank", ".drawing")
    assert not any("Alert" in each for each in ferret.texts(".notices"))
    assert "alert" not in ferret.texts(".head .chip")


NUMBERS = """
const done = arguments[0];
Promise.all(["format", "chart"].map((name) => import(`/dashboard/${name}.js`))).then(([format, { scale }]) => done([
  format.time(12520), format.time(0.00002), format.axisTime(2500), format.axisRate(2.5e-7), format.share(0.9996),
  format.beyond(620, 480, "below"), format.beyond(1, 9, "above"), scale(0).top, scale(-1).top, scale(0.3).top,
]));
"""


AXES = """
const cut = (text) => {
  const [inner, outer] = [text, text.closest("svg")].map((each) => each.getBoundingClientRect());
  return inner.left < outer.left - 0.5 || inner.right > outer.right + 0.5;
};
const labels = [...document.querySelectorAll(".charts .chart text")].filter((each) => each.checkVisibility());
const wrong = labels.filter((each) => cut(each) || /e[-+]/.test(each.textContent));
return [labels.length, wrong.map((each) => each.textContent)];
"""
MOMENTS = "return [...new Set([...document.querySelectorAll('.chart .moment')].map((each) => each.textContent))]"
SAMPLE = """
const [status, done] = arguments;
import("/dashboard/samples.js").then((it) => {
  it.samplesOf("made up").push({ ...status, app: "made up" });
  done(it.samplesOf("made up").last);
});
"""


def test_charts_are_for_people_and_have_the_colours_of_reports(ferret: Browser, daemon: SceneDaemon) -> None:
    ferret.until(lambda: ferret.all(".chart .line.input[d*=L]"), "charts")
    titles = " ".join(ferret.texts(".charts h3"))
    for title in ("Offered and delivered", "Latency", "Composition", "Workers in use and cores they keep busy"):
        assert title in titles
    ferret.find(".charts svg").send_keys(Keys.ARROW_LEFT)
    ferret.until(lambda: len(told := ferret.run(MOMENTS)) == 1 and re.fullmatch(r"\d\d:\d\d:\d\d", told[0]), "one time")
    for width in (1440, 390):
        ferret.resize(width, 900)
        ferret.settle()
        count, wrong = ferret.run(AXES)
        assert count > 20
        assert wrong == [], f"{width} px: cut, or no figure for people"
    anew = {**daemon.status("ferret"), "throughput_per_s": 0.4, "delivered_per_s": 9.8}
    drawn = ferret.driver.execute_async_script(SAMPLE, anew)
    assert drawn["output"] == 9.8, "what is judged begins anew with a switch: a dip that was none"
    names = ["1", "13", "17", "01", "wide", "größe", "c2", "two-wide"]
    script = "const [names, done] = arguments; import('/dashboard/names.js').then((it) => done(names.map(it.hueOf)))"
    assert ferret.driver.execute_async_script(script, names) == [hue_of(name) for name in names]
    told = ferret.driver.execute_async_script(NUMBERS)
    assert told[:2] == ["12.5 s", "0.00 ms"]
    assert told[2:7] == ["2.5 s", "0", "99.9 %", "29 % above its bound", "a 9th of its bound"]
    assert told[7:] == [1, 1, pytest.approx(0.3)], "an axis of nothing but zeros reaches to one"


def test_a_range_is_marked_by_dragging_and_has_an_address(ferret: Browser) -> None:
    ferret.until(lambda: ferret.attribute(".line.input", "d").count("L") > 200, "five minutes of history")
    chart = ferret.find(".charts svg")
    drag = ActionChains(ferret.driver).move_to_element_with_offset(chart, -60, 0).click_and_hold()
    drag.move_to_element_with_offset(chart, 60, 0).release().perform()
    ferret.until(lambda: "?from=" in str(ferret.run("return location.hash")), "an address")
    here = str(ferret.run("return location.hash"))
    ferret.until(lambda: 10 < ferret.attribute(".line.input", "d").count("L") < 200, "a part of it")
    ferret.driver.refresh()
    ferret.until(lambda: 10 < ferret.attribute(".line.input", "d").count("L") < 200, "the same part")
    assert str(ferret.run("return location.hash")) == here
    ferret.find(".charts svg").send_keys("-")
    ferret.until(lambda: str(ferret.run("return location.hash")) != here, "a wider range")
    ferret.find("#log").click()
    ferret.until(lambda: "100 ms" in ferret.texts(".charts figure:nth-child(2)")[0], "powers of ten")
    ferret.press("Back to now", ".panel:has(.charts)")
    ferret.until(lambda: ferret.attribute(".line.input", "d").count("L") > 200, "what is now")


LISTED = """
const [entry, done] = arguments;
const parts = ["decision_views", "names"].map((name) => import(`${location.origin}/dashboard/${name}.js`));
Promise.all(parts).then(([views, names]) => {
  const shown = views.decision(entry, { app: entry.to, names: new names.Names() }, true);
  document.body.append(shown);
  done(shown.innerText);
}, (error) => done(String(error)));
"""
"""A decision as the page would list it, with what no service would store."""


@pytest.mark.logs_errors("run failed")
@pytest.mark.parametrize("seen", [(422, 404)], indirect=True)
def test_what_the_service_tells_is_text_and_never_run(ferret: Browser, daemon: SceneDaemon) -> None:
    daemon.send("POST", "/slo", LATENCY)
    last = {**daemon.status("ferret")["last_decision"], "from": PROBE, "to": PROBE, "reason": PROBE}
    told = {"held_up": PROBE, "failure": PROBE, "no_change": PROBE, "last_decision": last, "run": PROBE}
    told["workers"] = [{"id": PROBE, "pid": 1, "node": PROBE, "group": 0, "outstanding": 1, "restarts": 0}]
    daemon.ferret(**told)
    ferret.unfold("#fold-workers")
    ferret.sees("<img src=x", "#fold-workers table")
    ferret.sees("<img src=x", ".why")
    ferret.sees("<img src=x", ".notices")
    ferret.unfold(COMPOSITIONS)
    ferret.until(lambda: ferret.run("return document.getElementById('yaml').value"), "the example")
    ferret.find("#yaml").clear()
    ferret.find("#yaml").send_keys(f"app: ferret\ncompositions:\n- name: '{PROBE}'\n  notation: '{PROBE}'\n")
    ferret.press("Add", COMPOSITIONS)
    ferret.sees("<img src=x", ".faults")
    ferret.open(f"#/app/{quote(PROBE, safe='')}")
    ferret.sees("Not found", "main")
    candidate = {"name": PROBE, "status": PROBE, "reason": PROBE, "workers": 1}
    entry = {**last, "candidates": [candidate], "trigger": PROBE, "outcome": PROBE, "transition": PROBE}
    assert "<img src=x" in ferret.driver.execute_async_script(LISTED, entry)
    assert ferret.run("return window.ran ?? null") is None
    assert not ferret.all("main img, main script, body > details img")


def test_all_objectives_a_gap_the_workers_and_the_log_are_shown(ferret: Browser, daemon: SceneDaemon) -> None:
    """One page for what is told beside the four questions."""
    p95 = {"metric": "latency", "statistic": "p95", "target": 200}
    joint = [{"metric": "latency", "target": 400}, p95, {"metric": "throughput", "target": "input_rate"}]
    daemon.send("POST", "/slo", {"app": "ferret", "objectives": joint})
    began = daemon.status("ferret")["updated_at"]
    worker = {"id": "w1", "pid": 101, "node": "10.0.0.5", "group": 0, "outstanding": 1, "restarts": 2}
    taken = {"cpu_cores": 0.87, "memory_bytes": 210 * 2**20}
    again = {"epoch": 2, "started_again": "ConnectionError: gone", "began_at": began, "missing_s": (60, 90)}
    daemon.ferret(**again, durability="exactly-once")
    ferret.sees("(ConnectionError: gone). The new runner continues the run.", ".notices")
    daemon.ferret(**again, run="another", workers=[{**worker, **taken}])
    ferret.sees("(ConnectionError: gone). Serial numbers begin at 0 again.", ".notices")
    ferret.sees("95th percentile, 5 % above its bound 240 ms; mean", ".tile")
    ferret.sees("In force: mean latency ≤ 480 ms and 95th percentile latency ≤ 240 ms and throughput", "#act-slo")
    ferret.until(lambda: ferret.run(HEIGHTS, ".charts figure:nth-child(2) path.limit") == 2, "both bounds")
    drawn = ".charts figure:nth-child(2) path.line"
    assert [each.split()[-1] for each in ferret.run(CLASSES, drawn)] == ["mean", "p95", "share"]
    ferret.run("document.querySelector('button.key.p99').click()")
    ferret.until(lambda: "line p99" in ferret.run(CLASSES, drawn), "the curve that was asked for")
    ferret.driver.refresh()
    ferret.sees("Nothing measured from", ".lost")
    assert ferret.all(".charts .hole")
    ferret.unfold("#fold-workers")
    ferret.sees("0.87 cores", "#fold-workers table")
    assert "segment + extract" in ferret.texts("#fold-workers table")[0]
    assert "210 MiB" in ferret.texts("#fold-workers table")[0]
    ferret.unfold("#fold-log")
    ferret.sees("runner is up", ".log")
    assert ferret.faults_of_access() == []


def test_slow_items_and_earlier_runs_are_told_from_telemetry(ferret: Browser, tmp_path: Path) -> None:
    written = tmp_path / "telemetry"
    for run, began_s, verdict in (("before", time() - 600, "violated"), ("after", time() - 60, "met")):
        for number in range(3):
            write(written, number, began_s=began_s, run=run, slo_status=verdict, latency_p95_ms=250.0)
            write_items(written, number, [0.3, 1.5], run=run, began_s=began_s)
    ferret.unfold("#fold-slowest")
    ferret.sees("1,354 ms", "#fold-slowest table")
    assert "rank 96.0 ms" in ferret.texts("#fold-slowest tbody tr")[0]
    ferret.run("document.querySelector('.head .run a').click()")
    ferret.sees("SLO met 0 % then 100 % of the time", ".compare")
    rows = [row.replace("\n", "").split("\t") for row in ferret.texts(".beside tr")]
    assert ["SLO met", "0 %", "100 %", "+100 %, better"] in rows
    assert "undefined" not in ferret.texts(".compare")[0]
    ferret.until(lambda: ferret.all(".chart .line.output[d*=L]"), "the second run's curve")
    assert ferret.attribute(".chart .line.input", "d").count("M") == 1, "whole between the other one's samples"
    assert ferret.faults_of_access() == []
    ferret.choose("with", next(each for each in ferret.texts("[name=other] option") if "before" in each))
    ferret.sees("SLO met 0 % then 0 % of the time", ".compare")
    assert "one=before&other=before" in str(ferret.run("return location.hash"))


HOUR = 3600 * 4
SENT = HOUR // 3
LIMIT_BYTES = 100e6 * SENT / HOUR
COUNTING = "window.heard = 0; const parse = JSON.parse; JSON.parse = (text) => (window.heard++, parse(text))"


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", ["#/", "#/app/ferret"])
def test_an_hour_of_events(tmp_path: Path, path: str, chromium: Driver) -> None:
    """Of three apps at four statuses a second, as fast as they can be sent: the page does not grow. A third of an hour
    is sent, and may take a third of what an hour may. The page keeps a quarter of an hour of every app, a sample a
    second; the scene's clock advances a second with every status, so that this is full after a fifth."""
    apps = ["ferret", "synthetic", "bzip2"]
    with scenes(tmp_path, apps=apps, fast=True) as fast, page(fast.url, chromium) as seen:
        for app in apps:
            fast.send("POST", f"/apps/{app}/start", {"source": {"kind": "push"}})
        fast.send("POST", "/slo", LATENCY)
        seen.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": COUNTING})
        seen.open(path)
        seen.sees("ferret")
        heaps = []
        while (heard := int(seen.run("return heard"))) < SENT:
            heaps.append(seen.heap_bytes())
            seen.until(lambda heard=heard: seen.run("return heard") > min(heard + 400, SENT), "events", 60)
        print(f"{path}: {heard} events, heap at most {max(heaps) / 1e6:.1f} MB, last {heaps[-1] / 1e6:.1f} MB")
        assert max(heaps) <= LIMIT_BYTES
        nodes = seen.run("return document.getElementsByTagName('*').length")
        assert nodes < 5000
