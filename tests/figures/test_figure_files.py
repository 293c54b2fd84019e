import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from pypdf import PdfReader

from reward_ablation.analysis.reading import read_table
from reward_ablation.figures.__main__ import PAGE_HEIGHT, main, reader_of
from reward_ablation.figures.__main__ import draw as drawn
from reward_ablation.figures.book import main as bind
from reward_ablation.figures.catalogue import APPENDIX, FIGURES, PAGES, tables_of
from reward_ablation.figures.style import ONE_COLUMN, WIDTH
from reward_ablation.system.errors import StudyError
from storage import fill, small_disk


@pytest.fixture(scope="module")
def written(made_up, tmp_path_factory):
    """Folder with every figure of a study, and all of them joined."""
    given, folder = made_up("four arms"), tmp_path_factory.mktemp("figures")
    for name in FIGURES:
        given.tables.of_figure(name)
    assert len(given.tables["provenance"])
    draw(FIGURES, given.root, folder)
    bind_all(given.root, folder, folder / "with_appendix.pdf")
    return folder


def draw(names, root, output, *options):
    """Draw figures into a folder by their command."""
    main([*names, *given_to(root, output), *options])


def given_to(root, output):
    """The options of the command that say where the study is and where the figures go."""
    return ["--study", str(root / "study.json"), "--tables", str(root / "tables"), "--output", str(output)]


#: The figures that are bound: all but the last ones of the appendix.
BOUND = [*PAGES, *APPENDIX[:4]]


def bind_all(root, figures, output, names=BOUND):
    """Bind the figures of a folder by the command."""
    pages = [str(figures / "pages" / f"{name}.pdf") for name in names]
    provenance = ["--provenance", str(root / "tables" / "provenance.parquet")]
    bind(["--study", str(root / "study.json"), *provenance, "--pages", *pages, "--output", str(output)])


def test_every_figure_is_a_pdf_for_a_paper_with_its_caption_and_a_page(written):
    files = {f"{name}.{ending}" for name in FIGURES for ending in ("pdf", "png", "txt")}
    assert {path.name for path in written.iterdir()} == files | {"with_appendix.pdf", "pages"}
    for name, entry in FIGURES.items():
        caption = (written / f"{name}.txt").read_text()
        (paper,) = PdfReader(written / f"{name}.pdf").pages
        words = paper.extract_text().replace("\n", " ")
        page = PdfReader(written / "pages" / f"{name}.pdf").pages[0].extract_text()
        assert caption.startswith(entry.title)
        assert len(caption.splitlines()) == 1
        assert entry.title not in words
        assert entry.title in page.replace("\n", " ")
        for sentence in caption.split(". ")[1:3]:
            assert sentence.strip()[:10] in page
            assert not sentence.strip() or sentence.strip() not in words
        width = float(paper.mediabox.width) / 72
        assert width == pytest.approx(ONE_COLUMN) or width >= WIDTH - 1e-6
        assert all(min(picture.image.size) < 20 for picture in paper.images)  # only colour bars are pixels
        assert (written / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_a_figure_for_a_paper_fits_a_column_unless_it_would_be_too_high(written, made_up, tmp_path, capsys):
    fit = {"primary", "arms", "alignment"}
    names = [*fit, "rewards"]
    draw(names, made_up("four arms").root, tmp_path, "--width", "column")
    sizes = {name: PdfReader(tmp_path / f"{name}.pdf").pages[0].mediabox for name in names}
    narrow = {name for name, box in sizes.items() if float(box.width) / 72 == pytest.approx(ONE_COLUMN)}
    assert all(float(sizes[name].height) / 72 <= PAGE_HEIGHT for name in narrow)
    told = re.findall(r"^(\w+) is too high for a column: ", capsys.readouterr().out, re.MULTILINE)
    assert (narrow, told) == (fit, ["rewards"])
    for file in [f"{name}.png" for name in names] + [f"pages/{name}.pdf" for name in names]:
        assert (tmp_path / file).read_bytes() == (written / file).read_bytes(), file


READ_IN_PART = [
    (name, table)
    for name, entry in FIGURES.items()
    for table in entry.tables
    if reader_of(name, table) is not read_table
]


@pytest.mark.parametrize(("name", "table"), READ_IN_PART)
def test_a_table_that_is_read_in_part_gives_the_same_figure(made_up, name, table):
    given = made_up("four arms")
    given.tables.of_figure(name)  # makes the files
    files = [given.root / "tables" / file for file in tables_of(name)]
    pixels = []
    for reader in (reader_of, lambda *_: read_table):
        canvas = FigureCanvasAgg(drawn(name, [reader(name, file.stem)(file) for file in files], given.study))
        canvas.draw()
        pixels.append(bytes(canvas.buffer_rgba()))
    assert pixels[0] == pixels[1]
    whole, in_part = given.tables[table], reader_of(name, table)(given.root / f"tables/{table}.parquet")
    assert {*in_part} <= {*whole}
    assert in_part.size < whole.size


def test_all_has_the_study_and_a_bookmark_for_each_figure_and_embeds_fonts_as_truetype(written):
    reader = PdfReader(written / "with_appendix.pdf")
    assert len(reader.pages) == 1 + len(BOUND)
    texts = [page.extract_text().replace("\n", " ") for page in reader.pages]
    assert "Reward ablation: made_up" in texts[0]
    marks = {mark.title: reader.get_destination_page_number(mark) for mark in reader.outline}
    assert marks == {title: place for place, title in enumerate(["Study", *(FIGURES[name].title for name in BOUND)])}
    assert all(title in texts[place] for title, place in list(marks.items())[1:])
    for font in (font for page in reader.pages for font in page["/Resources"]["/Font"].values()):
        descendants = font.get_object().get("/DescendantFonts", [font])
        assert all("/FontFile2" in each.get_object()["/FontDescriptor"] for each in descendants)


def test_two_processes_draw_the_same_bytes(written, made_up, tmp_path):
    root, names = made_up("four arms").root, ["arms", "cost", "similarity_parts"]
    command = [sys.executable, "-m", "reward_ablation.figures", *names, *given_to(root, tmp_path), "--processes", "2"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert sorted(printed.splitlines()) == sorted(f"draw {name}" for name in names)
    bind_all(root, written, tmp_path / "with_appendix.pdf")
    made = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(made) == 4 * len(names) + 1
    for path in made:
        assert path.read_bytes() == (written / path.relative_to(tmp_path)).read_bytes(), path.name


def test_figures_that_cannot_be_drawn_are_named_and_the_others_are_drawn(
    written, made_up, tmp_path, monkeypatch, capfd
):
    tables, given = tmp_path / "tables", made_up("four arms").root
    tables.mkdir()
    for name in ("evaluation_by_arm", "component_effects", "rewards_by_step"):
        (tables / f"{name}.parquet").write_bytes((given / "tables" / f"{name}.parquet").read_bytes())
    os.truncate(tables / "component_effects.parquet", 300)
    (tmp_path / "study.json").write_bytes((given / "study.json").read_bytes())
    monkeypatch.setattr("reward_ablation.figures.training.rewards", lambda *_: 1 / 0)
    for name in ("effects.pdf", "rewards.png"):
        (tmp_path / name).write_text("of an earlier start")
    with pytest.raises(StudyError) as error:
        draw(["rewards", "arms", "effects"], tmp_path, tmp_path)
    assert str(error.value).startswith(
        f"2 of 3 figures cannot be drawn (the others are in {tmp_path / 'drawn'}): "
        "rewards: ZeroDivisionError: division by zero; "
        f"effects: {tables / 'component_effects.parquet'}: truncated or changed"
    )
    assert "1 / 0" in capfd.readouterr().out
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*") if tables not in path.parents}
    assert left == {"study.json", *(f"drawn/{file}" for file in ("arms.pdf", "arms.png", "arms.txt", "pages/arms.pdf"))}
    draw(["arms"], given, tmp_path)
    assert not (tmp_path / "drawn").exists()


@pytest.mark.skipif(not Path("/proc").exists(), reason="reads /proc")
@pytest.mark.usefixtures("written")
def test_no_process_is_left_when_the_first_one_is_killed(made_up, tmp_path):
    options = [*given_to(made_up("four arms").root, tmp_path), "--processes", "2"]
    command = [sys.executable, "-m", "reward_ablation.figures", *FIGURES, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as drawing:
        drawing.stdout.readline()
        workers = Path(f"/proc/{drawing.pid}/task/{drawing.pid}/children").read_text().split()
        assert len(workers) == 2
        drawing.send_signal(signal.SIGKILL)
        drawing.stdout.read()  # to the end of the last process that can write there
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_full_disk_and_a_damaged_page_are_one_line_and_then_the_same_command_ends_well(written, made_up, tmp_path):
    root = made_up("four arms").root
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "primary.pdf").write_bytes((written / "primary.pdf").read_bytes()[:300])
    with pytest.raises(StudyError, match=r"primary\.pdf: truncated or changed .* delete it and run the workflow again"):
        bind_all(root, tmp_path, tmp_path / "all.pdf", ["primary"])
    with small_disk(tmp_path / "disk", "4m") as disk:
        filler = fill(disk, leave=4096)
        with pytest.raises(StudyError) as error:
            draw(["cost"], root, disk)
        assert f"{disk / 'cost.pdf'}: No space left on device; what is done is kept" in str(error.value)
        assert [path.name for path in disk.rglob("*") if path.is_file()] == [filler.name]
        filler.unlink()
        draw(["cost"], root, disk)
        assert (disk / "cost.pdf").read_bytes() == (written / "cost.pdf").read_bytes()
