"""``roadworthy cases``: write the cases of an assessment, make a set as it is met in use, show transforms on an image."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from roadworthy.cli.options import AssessmentFile, refuse_no_folder, refuse_own_input
from roadworthy.cli.progress import open_progress


def add_to(app: typer.Typer) -> None:
    """Make it a command."""
    group = typer.Typer(
        help="Cases: export those of an assessment, make a set as met in use, see what transforms do to an image.",
        no_args_is_help=True,
    )
    group.callback()(lambda: None)
    group.command("export")(_export)
    group.command("make")(_make)
    group.command("sheet")(_sheet)
    app.add_typer(group, name="cases")


def _export(
    file: AssessmentFile,
    out: Annotated[Path, Option(help="A new folder.")],
) -> None:
    """Write every case as a file, to be answered on other hardware or by another team.

    The subject is not needed. README.txt in the folder says how the answers come back.
    """
    with open_progress(quiet=False) as progress:
        progress.stage("starting", 0)
        from roadworthy.assessment.export import export as write
        from roadworthy.spec import Assessment

        done = write(Assessment.read(file), out, progress=progress)
    print(
        f"{done.cases:,} cases in {done.folder}; {done.folder / 'README.txt'} says what to send back"
    )
    if done.failed:
        first, why = next(iter(done.failed.items()))
        print(f"note: {len(done.failed):,} cases could not be made, the first is {first}: {why}")


def _make(
    file: AssessmentFile,
    out: Annotated[Path, Option(help="A new folder.")],
    n: Annotated[int, Option("--n", min=1, help="How many images.")] = 1000,
    only_changed: Annotated[
        bool, Option("--only-changed", help="Leave out images that meet no circumstance.")
    ] = False,
    boxes: Annotated[
        Literal["coco", "yolo", "voc"], Option("--format", help="How boxes are written.")
    ] = "coco",
    workers: Annotated[int, Option(min=1, help="Threads.")] = 2,
) -> None:
    """Write a set of images as they are met in use, by the probabilities of the circumstances.

    Labels become folders, boxes a file in the given format. The frequencies wanted and achieved are printed.
    """
    with open_progress(quiet=False) as progress:
        progress.stage("starting", 0)
        from roadworthy.assessment.follow_up import make_follow_up
        from roadworthy.spec import Assessment

        spec = Assessment.read(file)
        done = make_follow_up(
            spec,
            out,
            n=n,
            only_changed=only_changed,
            boxes=boxes,
            workers=workers,
            progress=progress,
        )
    print(f"{done.cases:,} images in {done.folder}")
    for f in done.frequencies:
        print(f"  {f.circumstance}: {f.achieved:.1%} (wanted {f.wanted:.1%})")
    if done.failed:
        first, why = next(iter(done.failed.items()))
        print(f"note: {len(done.failed):,} images could not be made, the first is {first}: {why}")


def _sheet(
    image: Annotated[Path, Argument(help="A picture (PNG, JPEG, …), or a text (.txt).")],
    out: Annotated[Path, Option(help="The sheet, .png or .jpg.")] = Path("sheet.png"),
) -> None:
    """Draw an image under every image transform at every level, on one contact sheet.

    A text (.txt) is printed before and after every text transform.
    """
    if image.suffix.lower() == ".txt":
        _print_texts(image)
        return
    from roadworthy.cases.image.pixels import opencv
    from roadworthy.cases.image.sheet import contact_sheet
    from roadworthy.data.loaders.files import read_image
    from roadworthy.spec import SpecError

    if out.suffix.lower() not in (".png", ".jpg"):
        raise SpecError(f"--out {out}: a name that ends in .png or .jpg was expected")
    refuse_no_folder("--out", out)
    refuse_own_input("--out", out, image)
    cv2, sheet = opencv(), contact_sheet(read_image(image))
    how = [] if out.suffix.lower() == ".png" else [cv2.IMWRITE_JPEG_QUALITY, 85]
    _, content = cv2.imencode(out.suffix, sheet[:, :, ::-1], how)
    out.write_bytes(content.tobytes())
    print(f"every image transform at every level: {out}")


def _print_texts(file: Path) -> None:
    """A text before and after every text transform at every level."""
    from roadworthy import registry
    from roadworthy.cases.transform import every_level
    from roadworthy.data.loaders.files import read_text

    text = read_text(file).strip()
    print(f"before: {text}")
    for name, component in registry.components("transforms").items():
        if component.traits["of"] == "text":
            for made in every_level(name):
                print(f"{name} {made.level:g}: {made.at_step(text, 0, file.name)}")
