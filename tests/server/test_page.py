"""The playground and the viewer in a real browser: Chromium without a window."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from callmemaybe.server.page import playground, viewer
from callmemaybe.tools import ToolCall
from callmemaybe.wire.formats import nano
from tests.server.conftest import BERN, PARIS, Start, calling
from tests.server.test_upstream import calling as upstream_calling
from tests.server.test_upstream import front, saying, upstream

selenium = pytest.importorskip("selenium", reason="the extra clients is not installed")
from selenium import webdriver  # noqa: E402 - it may be missing
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import Select, WebDriverWait  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed (apt install "
    "chromium chromium-driver)",
)  # fmt: skip
#: Where pictures of the pages go, if anywhere.
PICTURES = os.environ.get("CALLMEMAYBE_PICTURES")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser for all tests of this file, with nothing but this machine to talk to."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--window-size=1280,1000", "--force-color-profile=srgb",
        # What fades in is, for the driver, without a text until it is there.
        "--force-prefers-reduced-motion",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    ):  # fmt: skip
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


def until(browser: Any, is_so: Callable[[], Any]) -> Any:
    return WebDriverWait(browser, 20, 0.05).until(lambda _: is_so())


def all_of(browser: Any, selector: str) -> list[Any]:
    found: list[Any] = browser.find_elements(By.CSS_SELECTOR, selector)
    return found


def status(browser: Any) -> str:
    return str(browser.find_element(By.CSS_SELECTOR, "[role=status]").text)


def picture(browser: Any, name: str) -> None:
    if PICTURES:
        height = browser.execute_script("return document.documentElement.scrollHeight")
        browser.set_window_size(1280, min(height + 90, 1600))
        time.sleep(0.2)
        browser.save_screenshot(str(Path(PICTURES) / name))
        browser.set_window_size(1280, 1000)


def check_no_complaints(browser: Any) -> None:
    told = [one for one in browser.get_log("browser") if one["source"] != "network"]
    assert [one for one in told if one["level"] == "SEVERE"] == []


@needs_browser
def test_a_call_appears_token_by_token(browser: Any, start: Start) -> None:
    """Each token has its kind; the calls, the distribution and the passes are shown."""
    server = start(calling(PARIS, BERN))
    browser.get(server.url)
    until(browser, lambda: all_of(browser, "#choice option"))
    browser.find_element(By.ID, "run").click()
    until(browser, lambda: status(browser) == "2 calls.")
    tokens = all_of(browser, ".token[role=option]")
    assert {token.get_attribute("class") for token in tokens} >= {"token forced", "token chosen"}
    assert [one.text for one in all_of(browser, ".calls .name")] == ["get_weather", "get_weather"]
    assert '"Bern"' in all_of(browser, ".calls pre")[1].text
    rows = all_of(browser, "table.functions tr")
    assert rows[0].text.startswith("get_weather")
    assert any("no function" in row.text for row in rows)
    assert all_of(browser, "svg rect.pass")
    check_no_complaints(browser)


@needs_browser
def test_the_keyboard_is_enough(browser: Any, start: Start) -> None:
    """Ctrl and Enter run; arrow keys go from token to token and show what was likely there."""
    server = start(calling(PARIS))
    browser.get(server.url)
    box = browser.find_element(By.ID, "request")
    until(browser, lambda: box.get_attribute("value"))
    box.send_keys(Keys.CONTROL, Keys.ENTER)
    until(browser, lambda: status(browser) == "One call.")
    tokens = browser.find_element(By.CSS_SELECTOR, "[role=listbox]")
    tokens.send_keys(Keys.HOME)
    seen = set()
    for _ in all_of(browser, ".token[role=option]"):
        chosen = browser.find_element(By.CSS_SELECTOR, ".token[aria-selected=true]")
        assert tokens.get_attribute("aria-activedescendant") == chosen.get_attribute("id")
        if "chosen" in chosen.get_attribute("class") and all_of(browser, ".detail table.before"):
            assert len(all_of(browser, ".detail table.before tr")) == 5
            seen |= {"removed"} if all_of(browser, ".detail .removed") else {"kept"}
        tokens.send_keys(Keys.ARROW_RIGHT)
    assert "removed" in seen, "somewhere the mask removed one of the likeliest"
    check_no_complaints(browser)


@needs_browser
def test_a_link_brings_it_back(browser: Any, start: Start) -> None:
    """The address holds everything: opened anew it runs, and shows the same."""
    server = start(calling(PARIS))
    browser.get(server.url)
    until(browser, lambda: all_of(browser, "#choice option"))
    box = browser.find_element(By.ID, "request")
    box.clear()
    box.send_keys("Wetter in Zürich, bitte")
    Select(browser.find_element(By.ID, "choice")).select_by_value(":get_weather")
    browser.find_element(By.ID, "run").click()
    until(browser, lambda: status(browser) == "One call.")
    address = browser.current_url
    tokens = [one.text for one in all_of(browser, ".token[role=option]")]
    browser.get("about:blank")
    browser.get(address)
    until(browser, lambda: status(browser) == "One call.")
    assert (
        browser.find_element(By.ID, "request").get_attribute("value") == "Wetter in Zürich, bitte"
    )
    assert browser.find_element(By.ID, "choice").get_attribute("value") == ":get_weather"
    assert [one.text for one in all_of(browser, ".token[role=option]")] == tokens
    browser.get("about:blank")
    browser.get(f"{server.url}/#%%%")
    until(browser, lambda: "damaged" in status(browser))


@needs_browser
def test_mistakes_and_stops_are_told(browser: Any, start: Start) -> None:
    """What the server refuses is said in its words; Escape ends a run."""
    # Long enough that no browser is too slow to stop it.
    server = start(("It rains. " * 2000,), slow=0.05, default_tokens=8000)
    browser.get(server.url)
    until(browser, lambda: all_of(browser, "#choice option"))
    all_of(browser, "details summary")[-1].click()
    browser.find_element(By.ID, "most").clear()
    browser.find_element(By.ID, "most").send_keys("8000")
    tools = browser.find_element(By.ID, "tools")
    tools.clear()
    tools.send_keys('[{"name": "f", "parameters": {"type": "array"}}]')
    browser.find_element(By.ID, "run").click()
    until(browser, lambda: "the parameters are of type" in status(browser))
    assert "bad" in browser.find_element(By.CSS_SELECTOR, "[role=status]").get_attribute("class")
    tools.clear()
    browser.find_element(By.ID, "run").click()
    until(browser, lambda: len(all_of(browser, ".token[role=option]")) > 3)
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.ESCAPE)
    until(browser, lambda: status(browser) == "Stopped.")
    server.wait_until(lambda: server.scheduler().running == 0)


@needs_browser
def test_the_page_can_be_used_by_everyone(browser: Any, start: Start) -> None:
    """Every control has a name; text stands out from its ground, in the light and in the dark."""
    server = start(calling(PARIS))
    browser.get(server.url)
    browser.find_element(By.ID, "run").click()
    until(browser, lambda: status(browser) == "One call.")
    unnamed = browser.execute_script(
        "return [...document.querySelectorAll('button,input,select,textarea,[role=listbox]')]"
        ".filter(one => !(one.labels && one.labels.length) && !one.textContent.trim() "
        "&& !one.getAttribute('aria-label')).map(one => one.id)"
    )
    assert unnamed == []
    assert browser.execute_script("return document.documentElement.lang") == "en"
    for theme in ("light", "dark"):
        button = browser.find_element(By.ID, "theme")
        while theme not in button.text:
            button.click()
        assert browser.execute_script(CONTRAST) == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 1280


#: Elements whose text has less contrast than WCAG 2.2 asks for (4.5 to 1), with their ratio.
CONTRAST = """
const light = (text) => {
  const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = (one) => {
  for (; one; one = one.parentElement) {
    const colour = getComputedStyle(one).backgroundColor;
    if (!/, 0\\)$/.test(colour) && colour !== "transparent") return colour;
  }
  return "rgb(255, 255, 255)";
};
const found = [];
for (const one of document.querySelectorAll("body *")) {
  if (one.disabled || one.closest("svg") || !one.getClientRects().length) continue;
  if (![...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim())) continue;
  const [a, b] = [light(getComputedStyle(one).color), light(ground(one))].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05);
  if (ratio < 4.5) found.push([one.tagName, one.className, one.textContent.slice(0, 30), ratio]);
}
return found;
"""


@needs_browser
def test_a_trace_is_shown_without_a_server(browser: Any, tmp_path: Path) -> None:
    """One file: its requests can be found and gone through, whatever strings they hold."""
    step = {"kind": "chosen", "ids": [1, 2], "text": "</script><b>", "parts": ["</script>", "<b>"],
            "allowed": 2, "logprob": -0.5, "passes": 1, "seconds": 0.01,
            "before": [["</script>", 0.6], ["no", 0.3]], "after": [["</script>", 1.0]]}  # fmt: skip
    runs = [
        {"request": "<!-- <script>alert(1)</script>", "steps": [step], "failure": None,
         "end": {"distribution": [["f", 0.9], [None, 0.1]]},
         "call": {"name": "f", "arguments": '{"a": "</script>"}'}},
        {"request": "nothing", "steps": [], "failure": "it failed", "end": {}, "call": None},
    ]  # fmt: skip
    page = tmp_path / "trace.html"
    page.write_text(viewer(runs, title='a <b> & "c"'), encoding="utf-8")
    browser.get(page.as_uri())
    until(browser, lambda: len(all_of(browser, "#prompts button")) == 2)
    assert [one.text for one in all_of(browser, ".token[role=option]")] == ["</script>", "<b>"]
    browser.find_element(By.CSS_SELECTOR, "[role=listbox]").send_keys(Keys.HOME)
    assert "no" in browser.find_element(By.CSS_SELECTOR, ".removed").text
    all_of(browser, "#prompts button")[1].click()
    assert status(browser) == "it failed"
    browser.find_element(By.ID, "filter").send_keys("noth")
    assert len(all_of(browser, "#prompts button")) == 1
    check_no_complaints(browser)


@needs_browser
@pytest.mark.skipif(not PICTURES, reason="only where pictures are asked for")
def test_pictures_for_the_docs(browser: Any) -> None:
    """The embedded model in the playground, as the docs show it."""
    import threading

    from callmemaybe.models import load
    from callmemaybe.server.config import ServerConfig
    from callmemaybe.server.serving import application, make_server
    from callmemaybe.server.sockets import bind, url_of

    limits = ServerConfig(port=0)
    app = application(load("nano"), limits)
    opened = bind(limits)
    server = make_server(app.asgi(), limits, app.begin_to_stop)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]}, daemon=True)
    thread.start()
    try:
        browser.get(url_of(opened))
        Select(browser.find_element(By.ID, "example")).select_by_visible_text("Lights and music")
        browser.find_element(By.ID, "run").click()
        until(browser, lambda: all_of(browser, "table.functions"))
        button = browser.find_element(By.ID, "theme")
        for theme in ("light", "dark"):
            while theme not in button.text:
                button.click()
            place = browser.execute_script(
                "const all = view.tokens; const at = all.findIndex((t) => t.place === 0 && "
                "t.step.before && t.step.after.length && t.step.before.some(([x]) => "
                "!t.step.after.some(([y]) => y === x))); view.select(Math.max(0, at)); return at;"
            )
            assert place >= 0
            picture(browser, f"playground-{theme}.png")
    finally:
        server.should_exit = True
        thread.join(10)
        opened.close()


@needs_browser
def test_the_first_sight_says_what_to_do(browser: Any, start: Start) -> None:
    """Before the first run the result says what will be there, and no heading stands over nothing."""
    browser.get(start(calling(PARIS)).url)
    until(browser, lambda: all_of(browser, "#choice option"))
    assert "Press Run" in browser.find_element(By.ID, "result").text
    shown = [one.text for one in all_of(browser, "#result h2") if one.is_displayed() and one.text]
    assert "Forward passes" not in shown
    browser.find_element(By.ID, "run").click()
    until(browser, lambda: status(browser) == "One call.")
    assert "Press Run" not in browser.find_element(By.ID, "result").text


@needs_browser
def test_there_is_a_bar_for_each_pass(browser: Any, start: Start) -> None:
    """As many bars as the line above them counts, also where a step took several passes."""
    tools = [
        {"name": name, "parameters": {"type": "object", "properties": {}}}
        for name in ("get_weather", "get_time", "got_it")
    ]
    browser.get(start(calling(ToolCall("get_time", "{}"))).url)
    until(browser, lambda: all_of(browser, "#choice option"))
    browser.execute_script("fill({tools: arguments[0]})", json.dumps(tools))
    browser.find_element(By.ID, "run").click()
    until(browser, lambda: status(browser) == "One call.")
    assert browser.execute_script("return Math.max(...view.steps.map((one) => one.passes))") > 1
    told = re.search(r"in (\d+) forward pass", browser.find_element(By.ID, "result").text)
    assert told is not None
    assert len(all_of(browser, "svg rect.pass")) == int(told[1])


@needs_browser
def test_the_form_of_the_embedded_model_is_explained(browser: Any, tmp_path: Path) -> None:
    """What the grammar writes between the name and the arguments is set apart, and said to be no part of the call."""
    parts = ["ping", nano._ARGS, "a string", nano._FILL, "{}"]
    step = {"kind": "forced", "ids": [1, 2, 3, 4, 5], "text": "".join(parts), "parts": parts,
            "passes": 0, "seconds": 0.0, "allowed": None, "logprob": None}  # fmt: skip
    runs = [{"request": "r", "steps": [step], "failure": None, "end": {}, "call": None}]
    page = tmp_path / "trace.html"
    page.write_text(viewer(runs, title="t"), encoding="utf-8")
    browser.get(page.as_uri())
    until(browser, lambda: len(all_of(browser, ".token[role=option]")) == len(parts))
    apart = [one.text for one in all_of(browser, ".token.form[role=option]")]
    assert apart == parts[1:4]
    assert "not part of the call" in browser.find_element(By.ID, "result").text
    all_of(browser, ".token.form[role=option]")[1].click()
    assert "belongs to the form" in browser.find_element(By.CSS_SELECTOR, ".detail").text


@needs_browser
@pytest.mark.parametrize("count", [1, 2])
def test_the_parts_of_a_compound_request_are_explained(
    browser: Any, tmp_path: Path, count: int
) -> None:
    """Where the model was asked more than once the page says so, and nowhere else."""
    parts = ["ping", "{}", "<|end|>"] * count
    step = {"kind": "chosen", "ids": [*range(len(parts))], "text": "".join(parts), "parts": parts,
            "passes": 1, "seconds": 0.1, "allowed": None, "logprob": None}  # fmt: skip
    runs = [{"request": "r", "steps": [step], "failure": None, "end": {"passes": 1}, "call": None}]
    page = tmp_path / "trace.html"
    page.write_text(viewer(runs, title="t"), encoding="utf-8")
    browser.get(page.as_uri())
    until(browser, lambda: len(all_of(browser, ".token[role=option]")) == len(parts))
    told = browser.find_element(By.ID, "result").text
    assert ("asked about the whole request" in told) is (count > 1)
    assert ("chose 2 times" in told) is (count > 1)
    assert ("There was no choice" in told) is (count == 1)


@needs_browser
def test_on_a_phone_the_result_is_not_far(browser: Any, start: Start) -> None:
    """The result begins on the first screen, and a run brings it to the top."""
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    top = "return document.querySelector(arguments[0]).getBoundingClientRect().top"
    try:
        browser.get(start(calling(PARIS)).url)
        until(browser, lambda: all_of(browser, "#choice option"))
        assert browser.execute_script(top, "#result") < 700
        browser.find_element(By.ID, "run").click()
        until(browser, lambda: status(browser) == "One call.")
        until(browser, lambda: 0 <= browser.execute_script(top, ".calls") < 300)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@needs_browser
def test_an_agents_turns_are_played(browser: Any, start: Start) -> None:
    """Parallel calls get their results, the conversation goes on, and a link brings it back."""
    server = start(calling(PARIS, BERN), ("It rains.",))
    browser.get(server.url)
    until(browser, lambda: all_of(browser, "#choice option"))
    browser.find_element(By.ID, "run").click()
    until(browser, lambda: status(browser) == "2 calls.")
    for index, result in enumerate(("21 degrees", "12 degrees")):
        until(browser, lambda index=index: all_of(browser, f"#next-{index}"))[0].send_keys(result)
    browser.find_element(By.CSS_SELECTOR, ".next button").click()
    until(browser, lambda: status(browser) == "An answer in text.")
    for _ in range(2):
        turns = [one.text for one in all_of(browser, ".turns > li")]
        assert len(turns) == 4
        assert turns[1].startswith("Model, 2 calls at once")
        assert "Bern" in turns[1]
        assert turns[2:] == [
            "Result of call 1, get_weather\n21 degrees",
            "Result of call 2, get_weather\n12 degrees",
        ]
        assert all_of(browser, "#result > .calls pre")[0].text == "It rains."
        address = browser.current_url
        browser.get("about:blank")
        browser.get(address)
        until(browser, lambda: status(browser) == "An answer in text.")
    until(browser, lambda: all_of(browser, "#next-0"))[0].send_keys("And tomorrow?")
    browser.find_element(By.CSS_SELECTOR, ".next button").click()
    until(browser, lambda: len(all_of(browser, ".turns > li")) == 6)
    check_no_complaints(browser)


@needs_browser
def test_earlier_messages_are_taken_and_shown(browser: Any, start: Start) -> None:
    """A conversation of an agent can be pasted; what is no list of messages is told."""
    browser.get(start(("Clear.",), turn=lambda _: 0).url)
    until(browser, lambda: all_of(browser, "#choice option"))
    Select(browser.find_element(By.ID, "example")).select_by_visible_text("An agent's second turn")
    browser.find_element(By.ID, "run").click()
    until(browser, lambda: status(browser) == "An answer in text.")
    assert len(all_of(browser, ".turns > li")) == 4
    for field, name in (("earlier", "Earlier messages"), ("tools", "Functions")):
        browser.execute_script("fill({request: 'r', [arguments[0]]: '[nothing'})", field)
        browser.find_element(By.ID, "run").click()
        until(browser, lambda name=name: status(browser).startswith(f"{name}: this is no JSON"))
    browser.execute_script("fill({request: ' ', tools: ''})")
    browser.find_element(By.ID, "run").click()
    until(browser, lambda: "write a request" in status(browser))


@needs_browser
def test_a_model_of_another_server_is_played_without_tokens(browser: Any) -> None:
    """In front of another server the page asks for no steps, says so, and shows calls and texts as they come."""
    replies = [
        upstream_calling("get_weather", '{"city": "Paris", "unit": "celsius"}'),
        saying("It rains."),
    ]
    with upstream(*replies) as behind, front(behind, "openai") as served:
        answer = served.chat(stream=True, callmemaybe={"steps": True})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "callmemaybe.steps")
        browser.get(served.url)
        until(browser, lambda: all_of(browser, "#choice option"))
        assert "tells no tokens" in browser.find_element(By.ID, "result").text
        browser.find_element(By.ID, "run").click()
        until(browser, lambda: status(browser) == "One call.")
        assert not all_of(browser, ".inside")[0].is_displayed()
        until(browser, lambda: all_of(browser, "#next-0"))[0].send_keys("rain")
        browser.find_element(By.CSS_SELECTOR, ".next button").click()
        until(browser, lambda: status(browser) == "An answer in text.")
    check_no_complaints(browser)


#: The smallest PNG: one pixel.
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@needs_browser
def test_a_picture_goes_to_the_model(browser: Any, tmp_path: Path) -> None:
    """A picked picture becomes a part of the request and is shown, also when its calls have their results."""
    file = tmp_path / "pixel.png"
    file.write_bytes(PIXEL)
    replies = [
        upstream_calling("get_weather", '{"city": "Paris", "unit": "celsius"}'),
        saying("Rain."),
    ]
    with upstream(*replies) as behind, front(behind, "openai") as served:
        browser.get(served.url)
        until(browser, lambda: all_of(browser, "#choice option"))
        browser.find_element(By.ID, "picture").send_keys(str(file))
        until(browser, lambda: browser.execute_script("return picture"))
        browser.find_element(By.ID, "run").click()
        until(browser, lambda: status(browser) == "One call.")
        assert len(all_of(browser, ".turns img[src^='data:image/png']")) == 1
        until(browser, lambda: all_of(browser, "#next-0"))[0].send_keys("rain")
        browser.find_element(By.CSS_SELECTOR, ".next button").click()
        until(browser, lambda: status(browser) == "An answer in text.")
    for asked in behind.asked:
        content = next(one["content"] for one in asked["messages"] if one["role"] == "user")
        (url,) = [part["image_url"]["url"] for part in content if part["type"] == "image_url"]
        assert base64.b64decode(url.partition(",")[2]) == PIXEL
    check_no_complaints(browser)


@needs_browser
def test_a_model_that_takes_no_pictures_says_so(browser: Any, start: Start) -> None:
    """The field is closed and says why; a pasted picture is refused in a sentence."""
    browser.get(start(calling(PARIS)).url)
    until(browser, lambda: all_of(browser, "#choice option"))
    assert not browser.find_element(By.ID, "picture").is_enabled()
    assert browser.find_element(By.ID, "noPicture").text == "talker takes no pictures."
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    pasted = json.dumps([{"role": "user", "content": [part]}])
    browser.execute_script("fill({earlier: arguments[0]})", pasted)
    browser.find_element(By.ID, "run").click()
    until(browser, lambda: "'talker' reads text only" in status(browser))
    check_no_complaints(browser)


@needs_browser
def test_refusals_are_told_apart_from_answers(browser: Any, start: Start) -> None:
    """What a model says as a refusal is shown as one; what the server refuses is shown as that."""
    browser.get(start(calling(PARIS)).url)
    until(browser, lambda: all_of(browser, "#choice option"))
    chunks = [
        {"choices": [{"index": 0, "delta": {"refusal": "Not this."}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ]
    stream = "".join(f"data: {json.dumps(one)}\n\n" for one in chunks) + "data: [DONE]\n\n"
    browser.execute_script(
        "const ask = window.fetch, text = arguments[0];"
        "window.fetch = async () => { window.fetch = ask; return new Response(text); };",
        stream,
    )
    browser.find_element(By.ID, "run").click()
    until(browser, lambda: status(browser).startswith("The model refuses."))
    assert all_of(browser, "#result > .calls pre")[0].text == "Not this."
    browser.execute_script(
        "fill({tools: arguments[0]})", '[{"name": "f", "parameters": {"type": "array"}}]'
    )
    browser.find_element(By.ID, "run").click()
    until(browser, lambda: status(browser).startswith("Refused by the server: "))


def test_pages_ask_for_nothing_from_elsewhere() -> None:
    """No address of another host stands in them, and their policy lets in only what is in them."""
    page = playground("m", needs_key=True)
    for text in (page.text, viewer([], title="t")):
        addresses = set(re.findall(r"https?://[^\s\"'<)]+", text))
        assert addresses <= {"http://www.w3.org/2000/svg"}
        assert "@@" not in text
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    told = re.search(r'id="data">(.*?)</script>', page.text)
    assert told is not None
    assert json.loads(told[1]) == {"model": "m", "needsKey": True, "steps": True, "pictures": False}


def test_no_name_breaks_out_of_the_page() -> None:
    """The model's name is data, whatever it is."""
    page = playground("</script><script>alert(1)</script>@@STYLE@@", needs_key=False)
    assert page.text.count("<script") == playground("m", needs_key=False).text.count("<script")
