"""Draw the README's picture of a report with Chromium: `report_picture.py results/demo/tables/overview.html`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from PIL import Image

PICTURE = Path(__file__).parents[1] / "images" / "report.png"
#: Size of the picture in pixels, and the height that Chromium takes for the bars of its window.
WIDTH, HEIGHT, BARS = 1000, 840, 90


def main() -> None:
    """Open the report's first page in Chromium without a window, and keep its upper part."""
    page = Path(sys.argv[1]).resolve()
    if not page.is_file():
        sys.exit(f"error: {page}: there is no such file; run make demo first")
    window = [f"--window-size={WIDTH},{HEIGHT + BARS}", "--hide-scrollbars"]
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", *window, f"--screenshot={PICTURE}"]
    subprocess.run([*command, page.as_uri()], check=True, stderr=subprocess.DEVNULL)
    Image.open(PICTURE).crop((0, 0, WIDTH, HEIGHT)).quantize(256).save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()
