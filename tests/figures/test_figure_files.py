import pytest
from pypdf import PdfReader

from reward_ablation.figures.__main__ import FIGURES, main
from reward_ablation.study.errors import StudyError
from storage import fill, small_disk


@pytest.fixture(scope="module")
def written(made_up, tmp_path_factory):
    """Folder with every figure of a study, and all of them joined."""
    return write(made_up("four arms").root, tmp_path_factory.mktemp("figures"))


def write(root, folder):
    study = ["--study", str(root / "study.json")]
    for name in FIGURES:
        main([name, *study, "--tables", str(root / "tables"), "--output", str(folder / f"{name}.pdf")])
    pages = [str(folder / f"{name}.pdf") for name in FIGURES]
    main(["all", *study, "--tables", str(root / "tables"), "--pages", *pages, "--output", str(folder / "all.pdf")])
    return folder


def test_every_figure_is_a_pdf_and_a_png(written):
    names = {path.name for path in written.iterdir()}
    assert names == {f"{name}.{ending}" for name in FIGURES for ending in ("pdf", "png")} | {"all.pdf"}
    for name in FIGURES:
        assert len(PdfReader(written / f"{name}.pdf").pages) == 1
        assert (written / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_all_has_a_title_page_and_every_figure(written):
    reader = PdfReader(written / "all.pdf")
    assert len(reader.pages) == 1 + len(FIGURES)
    assert "Reward ablation: made_up" in reader.pages[0].extract_text()
    assert "Rewards over training" in reader.pages[1].extract_text()
    assert [mark.title for mark in reader.outline] == ["study", *FIGURES]


def test_fonts_are_embedded_as_truetype(written):
    for name in FIGURES:
        fonts = PdfReader(written / f"{name}.pdf").pages[0]["/Resources"]["/Font"]
        for font in fonts.values():
            descendants = font.get_object().get("/DescendantFonts", [font])
            described = [each.get_object()["/FontDescriptor"] for each in descendants]
            assert all("/FontFile2" in descriptor for descriptor in described)


def test_figures_are_the_same_bytes_each_time(written, made_up, tmp_path):
    root = made_up("four arms").root
    options = ["--study", str(root / "study.json"), "--tables", str(root / "tables")]
    for name in ("rewards", "arms", "similarity_layers"):
        main([name, *options, "--output", str(tmp_path / f"{name}.pdf")])
    pages = [str(written / f"{name}.pdf") for name in FIGURES]
    main(["all", *options, "--pages", *pages, "--output", str(tmp_path / "all.pdf")])
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (written / path.name).read_bytes(), path.name


@pytest.mark.parametrize("name", ["rewards", "all"])
def test_a_full_disk_is_one_line_and_with_space_the_same_command_ends_well(written, made_up, tmp_path, name):
    root = made_up("four arms").root
    options = ["--study", str(root / "study.json"), "--tables", str(root / "tables")]
    if name == "all":
        options += ["--pages", *(str(written / f"{page}.pdf") for page in FIGURES)]
    with small_disk(tmp_path / "disk", "4m") as disk:
        filler = fill(disk, leave=4096)
        command = [name, *options, "--output", str(disk / f"{name}.pdf")]
        with pytest.raises(StudyError) as error:
            main(command)
        assert str(error.value).startswith(f"{disk / f'{name}.pdf'}: No space left on device; what is done is kept")
        assert [path.name for path in disk.iterdir()] == [filler.name]
        filler.unlink()
        main(command)
        assert (disk / f"{name}.pdf").read_bytes() == (written / f"{name}.pdf").read_bytes()
