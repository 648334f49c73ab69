"""The page in a real browser: no word in the console, pointer and keys read values, names hide lines, phones fit."""

import json
import shutil
import subprocess
import time
import urllib.request

import pytest

import fake_runs as fake
from hcsfed.report import write_page

CHROMIUM = next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
    *("--remote-debugging-port=0", "--remote-allow-origins=*"),
]
PATIENCE = 30

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")


class Browser:
    """One tab, spoken to by the DevTools protocol."""

    def __init__(self, home):
        websocket = pytest.importorskip("websocket")
        self.process = subprocess.Popen(
            [CHROMIUM, *FLAGS, f"--user-data-dir={home}", "about:blank"], stderr=subprocess.DEVNULL
        )
        try:
            note = home / "DevToolsActivePort"
            wait(lambda: note.exists() and "\n" in note.read_text())
            port = note.read_text().split("\n")[0]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=PATIENCE) as answer:
                tab = next(t for t in json.load(answer) if t["type"] == "page")
            self.socket = websocket.create_connection(tab["webSocketDebuggerUrl"], timeout=PATIENCE)
        except BaseException:
            self.process.kill()
            raise
        self.sent, self.heard = 0, []
        for part in ("Page", "Runtime", "Log", "Network"):
            self(part + ".enable")

    def __call__(self, method, **parameters):
        self.sent += 1
        self.socket.send(json.dumps({"id": self.sent, "method": method, "params": parameters}))
        while (answer := json.loads(self.socket.recv())).get("id") != self.sent:
            self.heard.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def open(self, path, width, height=800, *, dark=False, mobile=False, scripts=True):
        self.heard.clear()
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self("Emulation.setEmulatedMedia", features=[scheme])
        self("Emulation.setScriptExecutionDisabled", value=not scripts)
        self("Page.navigate", url=path.as_uri())
        wait(lambda: self("Runtime.evaluate", expression="document.readyState")["result"].get("value") == "complete")
        wait(lambda: self.js("location.href") == path.as_uri())

    def js(self, expression):
        answer = self("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def point(self, selector, across, down):
        box = self.js(
            f"(() => {{ const e = document.querySelector({selector!r}); e.scrollIntoView({{block: 'center'}});"
            " const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; })()"
        )
        x, y = box[0] + across * box[2], box[1] + down * box[3]
        self("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def close(self):
        self("Browser.close")
        self.process.wait(PATIENCE)


def wait(true):
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "the browser took too long"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    runs = [
        fake.run(name, s, rate=r)
        for name, r in (("full", 0.2), ("a-long-name-of-some-selector", 0.1))
        for s in (0, 1, 2)
    ]
    return write_page(runs, tmp_path_factory.mktemp("page") / "report.html", fake.scenes())


@pytest.fixture(scope="module")
def timed(tmp_path_factory):
    runs = [fake.run(name, s, rate=r) for name, r in (("full", 0.2), ("random", 0.1)) for s in (0, 1, 2)]
    for run in runs:
        for record in run.history:
            record |= {"simulated_seconds": 30.0 + record["round"], "server_bytes": 31_400, "disk_bytes": 0}
    return write_page(runs, tmp_path_factory.mktemp("page") / "timed.html")


def outputs(browser):
    return browser.js("[...document.querySelectorAll('.key output')].map(o => o.textContent)")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_console_is_silent_and_the_network_unused(browser, report, dark):
    browser.open(report, 1200, dark=dark)
    browser.point(".pane svg.wide", 0.5, 0.5)
    told = [
        e
        for e in browser.heard
        if e["method"] in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
    ]
    assert told == []
    asked = [e["params"]["request"]["url"] for e in browser.heard if e["method"] == "Network.requestWillBeSent"]
    assert {url.partition(":")[0] for url in asked} <= {"file", "data"}
    paper = browser.js("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(21, 23, 27)" if dark else "rgb(253, 252, 250)")


def test_the_pointer_reads_every_line_and_lets_go(browser, report):
    browser.open(report, 1200)
    browser.point(".pane svg.wide", 0.5, 0.5)
    assert "At round " in browser.js("document.querySelector('.at').textContent")
    values = outputs(browser)
    assert len(values) == 2
    assert all("%" in value and "–" in value for value in values)
    assert browser.js("document.querySelectorAll('.pane svg.wide .cursor circle').length") == 2
    browser.point("h1", 0.5, 0.5)
    assert outputs(browser) == ["", ""]


def test_a_name_hides_its_line_everywhere_and_shows_it_again(browser, report):
    browser.open(report, 1200)
    lines = "[...document.querySelectorAll('.series[data-group=\"1\"]')]"
    hidden = f"{lines}.filter(e => getComputedStyle(e).display == 'none').length"
    browser.js("document.querySelectorAll('.key')[1].click()")
    assert browser.js(hidden) == 6
    assert browser.js("document.querySelectorAll('.key')[1].getAttribute('aria-pressed')") == "false"
    browser.point(".pane svg.wide", 0.5, 0.5)
    assert outputs(browser)[1] == ""
    browser.js("document.querySelectorAll('.key')[1].click()")
    assert browser.js(hidden) == 0


def test_arrow_keys_walk_along_the_points(browser, report):
    browser.open(report, 1200)
    browser.js("document.querySelector('.pane svg.wide').focus()")
    for key in ("Home", "ArrowRight", "ArrowRight"):
        browser("Input.dispatchKeyEvent", type="keyDown", key=key)
    assert browser.js("document.querySelector('.at').textContent") == "At round 3:"
    browser("Input.dispatchKeyEvent", type="keyDown", key="Escape")
    assert browser.js("document.querySelector('.at').textContent") == ""


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_the_axis_can_be_switched_also_without_scripts(browser, report, scripts):
    browser.open(report, 1200, scripts=scripts)
    panes = "[...document.querySelectorAll('.pane')]"
    shown = f"{panes}.filter(e => getComputedStyle(e).display != 'none').map(e => e.dataset.axis)"
    assert browser.js(shown) == ["rounds"]
    for axis in ("bytes", "steps"):
        browser.js(f"document.getElementById('axis-{axis}').checked = true")
        assert browser.js(shown) == [axis]


def test_the_theme_goes_round(browser, report):
    browser.open(report, 1200)
    seen = []
    for _ in range(3):
        seen.append(browser.js("getComputedStyle(document.body).backgroundColor"))
        browser.js("document.getElementById('theme').click()")
    assert seen == ["rgb(253, 252, 250)", "rgb(253, 252, 250)", "rgb(21, 23, 27)"]


def test_a_clock_gives_a_fourth_axis_and_a_third_trade_off(browser, timed):
    browser.open(timed, 1200)
    browser.js("document.getElementById('axis-time').checked = true")
    panes = "[...document.querySelectorAll('.pane')].filter(e => getComputedStyle(e).display != 'none')"
    assert browser.js(f"{panes}.map(e => e.dataset.axis)") == ["time"]
    browser.js("document.querySelector('.pane[data-axis=time] svg.wide').focus()")
    for key in ("Home", "ArrowRight", "ArrowRight"):
        browser("Input.dispatchKeyEvent", type="keyDown", key=key)
    # 31 + 32 + 33 seconds.
    assert browser.js("document.querySelector('.at').textContent") == "At 1.6 min of simulated time:"
    assert browser.js("document.querySelectorAll('#tradeoffs svg.wide').length") == 3


@pytest.mark.parametrize("width", [320, 360, 768, 1000])
def test_everything_said_of_time_fits_too(browser, timed, width):
    browser.open(timed, width, mobile=True)
    assert browser.js("document.documentElement.scrollWidth") == width
    table = "document.querySelector('#result .scroll')"
    assert browser.js(f"getComputedStyle({table}).overflowX") == ("visible" if width <= 640 else "auto")
    assert width <= 640 or browser.js(f"{table}.scrollWidth <= {table}.clientWidth")


@pytest.mark.parametrize("width", [320, 360, 768])
def test_no_page_is_wider_than_its_screen(browser, report, width):
    browser.open(report, width, mobile=True)
    browser.js("document.querySelector('details').open = true")
    assert browser.js("document.documentElement.scrollWidth") == width
    wide = browser.js("getComputedStyle(document.querySelector('.pane svg.wide')).display")
    assert (wide == "none") == (width <= 640)


def test_paper_shows_all_three_axes_without_buttons(browser, report):
    browser.open(report, 1200)
    browser("Emulation.setEmulatedMedia", media="print")
    shown = browser.js("[...document.querySelectorAll('.pane')].every(e => getComputedStyle(e).display == 'block')")
    buttons = browser.js("getComputedStyle(document.querySelector('.switch')).display")
    browser("Emulation.setEmulatedMedia", media="")
    assert shown
    assert buttons == "none"
