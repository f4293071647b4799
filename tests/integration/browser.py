"""A headless Chromium that remembers what it asked for and what it complained about."""

import base64
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait

T = TypeVar("T")
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps"),
    *("--enable-precise-memory-info", "--force-color-profile=srgb", "--hide-scrollbars"),
)
WAIT_S = 20.0
AUDIT = """
const [rules, done] = arguments;
axe.run({ resultTypes: ["violations"], ...(rules.length && { runOnly: rules }) }).then(done);
"""
AXE = Path(str(files("axe_core_python"))) / "axe.min.js"


class Browser:
    def __init__(self, driver: Any, base: str) -> None:
        self.driver, self.base = driver, base
        self.asked: list[str] = []
        self.received_bytes = 0

    def open(self, path: str = "") -> None:
        self.driver.get(f"{self.base}/{path}")

    def resize(self, width: int, height: int) -> None:
        """Of the page itself; a headless window is never narrower than 500 pixels."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def colours(self, scheme: str) -> None:
        wanted = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        features = [{"name": name, "value": value} for name, value in wanted.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def find(self, selector: str) -> WebElement:
        return self.until(lambda: self.driver.find_element(By.CSS_SELECTOR, selector), selector)

    def all(self, selector: str) -> list[WebElement]:
        return list(self.driver.find_elements(By.CSS_SELECTOR, selector))

    def attribute(self, selector: str, name: str) -> str:
        """Read at once: what is drawn anew four times a second would be gone between two questions."""
        script = "return document.querySelector(arguments[0])?.getAttribute(arguments[1])"
        return str(self.until(lambda: self.run(script, selector, name), f"{name} of {selector}"))

    def texts(self, selector: str) -> list[str]:
        """Visible texts of all that match, read at once."""
        script = "return [...document.querySelectorAll(arguments[0])].map((each) => each.innerText.trim())"
        return list(self.run(script, selector))

    def until(self, true: Callable[[], T], what: str, seconds: float = WAIT_S) -> T:
        ignored = (Exception,)
        found: T = WebDriverWait(self.driver, seconds, 0.1, ignored).until(lambda _: true(), f"waited for {what}")
        return found

    def sees(self, text: str, selector: str = "body", seconds: float = WAIT_S) -> None:
        self.until(lambda: any(text in each for each in self.texts(selector)), f"{text!r} in {selector}", seconds)

    def field(self, label: str, within: str = "body") -> WebElement:
        """The visible control with this label, as soon as there is one."""
        return self.until(lambda: self._field(label, within), f"field {label!r} in {within}")

    def _field(self, label: str, within: str) -> WebElement | None:
        for each in self.find(within).find_elements(By.TAG_NAME, "label"):
            if each.is_displayed() and each.text.strip() == label:
                return self.driver.find_element(By.ID, each.get_attribute("for"))
        return None

    def write(self, label: str, text: str, within: str = "body") -> None:
        control = self.field(label, within)
        control.clear()
        control.send_keys(text)

    def choose(self, label: str, text: str, within: str = "body") -> None:
        """As soon as it can be chosen: some lists are filled by an answer of the service."""

        def chosen() -> bool:
            Select(self.field(label, within)).select_by_visible_text(text)
            return True

        self.until(chosen, f"{text!r} in the list {label!r} in {within}")

    def press(self, label: str, within: str = "body") -> None:
        button = self.until(lambda: self._button(label, within), f"button {label!r} in {within}")
        self.run("arguments[0].scrollIntoView({block: 'center'})", button)
        button.click()

    def _button(self, label: str, within: str) -> WebElement | None:
        buttons = self.find(within).find_elements(By.TAG_NAME, "button")
        return next((each for each in buttons if each.text == label and each.is_displayed()), None)

    def unfold(self, selector: str) -> None:
        """At once: what is drawn anew between two questions is another element."""
        self.find(selector)
        unfold = "const it = document.querySelector(arguments[0]); it.open = true; it.scrollIntoView({block: 'center'})"
        self.run(unfold, selector)

    def settle(self) -> None:
        """Until two pictures have been drawn: what depends on the size has been drawn anew."""
        self.driver.execute_async_script(
            "const done = arguments[0]; setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 300)"
        )

    def picture(self, path: Path, most: int = 20_000, within: str = "html") -> None:
        """The page, or an element of it, as PNG, down to ``most`` pixels."""
        self.run("scrollTo(0, 0)")  # what sticks to the window would stand in the middle of the page
        box = self.run("return document.querySelector(arguments[0]).getBoundingClientRect().toJSON()", within)
        clip = {**{key: box[key] for key in ("x", "y", "width")}, "height": min(box["height"], most), "scale": 1}
        asked = {"format": "png", "clip": clip, "captureBeyondViewport": True}
        path.write_bytes(base64.b64decode(self.driver.execute_cdp_cmd("Page.captureScreenshot", asked)["data"]))

    def heap_bytes(self) -> int:
        """Of JavaScript, of what is still in use: how long garbage lies about is the browser's choice."""
        self.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
        return int(self.run("return performance.memory.usedJSHeapSize"))

    def faults_of_access(self, rules: Sequence[str] = ()) -> list[str]:
        """axe-core's serious and critical violations; of these ``rules`` only, if there are any."""
        if not self.run("return 'axe' in window"):
            self.run(AXE.read_text())
        found = self.driver.execute_async_script(AUDIT, list(rules))
        grave = [each for each in found["violations"] if each["impact"] in ("serious", "critical")]
        return [f"{each['id']}: {node['target']} {node['failureSummary']}" for each in grave for node in each["nodes"]]

    def complaints(self) -> list[str]:
        """What the console said since the last call."""
        return [each["message"] for each in self.driver.get_log("browser") if each["level"] in ("SEVERE", "WARNING")]

    def note_requests(self) -> None:
        """Adds what was asked for since the last call."""
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.asked.append(message["params"]["request"]["url"])
            elif message["method"] == "Network.loadingFinished":
                self.received_bytes += int(message["params"]["encodedDataLength"])


@contextmanager
def chromium(profile: Path, width: int = 1360, height: int = 900) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in (*FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}", "about:blank"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=str(DRIVER)))
    try:
        yield driver
    finally:
        driver.quit()


@contextmanager
def browser(base: str, where: Path | webdriver.Chrome) -> Iterator[Browser]:
    """One of its own, with its profile in a folder, or as good as that: a tab of one that runs, with storage, cookies
    and cache of its own."""
    if isinstance(where, Path):
        with chromium(where) as driver:
            yield Browser(driver, base)
    else:
        with _tab(where, base):
            yield Browser(where, base)


@contextmanager
def _tab(driver: webdriver.Chrome, base: str) -> Iterator[None]:
    first = driver.current_window_handle
    driver.switch_to.new_window("window")
    for kind in ("browser", "performance"):
        driver.get_log(kind)  # what an earlier tab said is not this one's
    try:
        yield
    finally:
        driver.execute_cdp_cmd("Storage.clearDataForOrigin", {"origin": base, "storageTypes": "all"})
        for kept in ("Cookies", "Cache"):
            driver.execute_cdp_cmd(f"Network.clearBrowser{kept}", {})
        for handle in driver.window_handles:
            if handle != first:
                driver.switch_to.window(handle)
                driver.close()
        driver.switch_to.window(first)
