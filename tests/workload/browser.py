"""A headless Chromium that opens pages from disk, and says what went wrong in them."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

_ARGUMENTS = (
    "--headless",
    "--no-sandbox",  # tests run as root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    # A page that asks the network gets an error, which the log shows.
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
_READY_WITHIN_S = 30

# Runs before any script of a page, which its policy does not forbid: it is not part of the page.
_LISTEN = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
window.ran = [];
for (const name of ["alert", "confirm", "prompt", "open"]) window[name] = () => ran.push(name);
"""


class Browser:
    """Opens one page after the other."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _LISTEN})

    def open(self, page: Path, fragment: str = "") -> float:
        """Open a report; return the milliseconds until all of it was there, and drawn once."""
        self.driver.get("about:blank")
        self.log()
        self.driver.get(page.as_uri() + fragment)
        deadline = time.monotonic() + _READY_WITHIN_S
        while self.run("return document.documentElement.dataset.ready") != "yes":
            assert time.monotonic() < deadline, (self.violations(), self.log())
            time.sleep(0.02)
        drawn: float = self.driver.execute_async_script(
            "const done = arguments[0];"
            "requestAnimationFrame(() => setTimeout(() => done(performance.now())));"
        )
        return drawn

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a script in the page; return what it returns."""
        return self.driver.execute_script(script, *arguments)

    def violations(self) -> list[str]:
        """Return the violations of the page's policy so far, and dialogs that a script opened."""
        found: list[str] = self.run("return [...window.violations, ...window.ran]")
        return found

    def log(self) -> list[str]:
        """Return what the console got since the page was opened: errors and warnings."""
        entries: list[dict[str, str]] = self.driver.get_log("browser")
        return [entry["message"] for entry in entries]

    def show(self, *, dark: bool = False, media: str = "") -> None:
        """Show pages in dark or light colours; ``media`` may be ``print``."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"media": media, "features": [scheme]}
        )

    def resize(self, width: int, height: int) -> None:
        """Set the size of the page's view in pixels."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Start a Chromium of Debian, with a profile of its own; end it."""
    from selenium import webdriver  # only make test-all installs it

    with TemporaryDirectory() as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        for argument in (*_ARGUMENTS, f"--user-data-dir={profile}"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        service = webdriver.ChromeService("/usr/bin/chromedriver")
        driver = webdriver.Chrome(options=options, service=service)
        try:
            yield Browser(driver)
        finally:
            driver.quit()
