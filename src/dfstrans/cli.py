"""The command line: parse, call, print. Results go to stdout, progress and remarks to stderr."""

from __future__ import annotations

import sys
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from dfstrans import __version__, cli_compare, cli_encoding, cli_inject, cli_reproduce, cli_simulate
from dfstrans.baselines.registry import MODELS
from dfstrans.cli_options import options_from
from dfstrans.cli_output import AsJson, print_json, print_result, progress, remark, warn_of_overlap
from dfstrans.config import DFSTRANS, PRESETS, NetworkSettings, Preset, TrainingSettings, check_settings
from dfstrans.data.readers.options import ReadOptions
from dfstrans.errors import DfstransError, settings_as_options, spelled

if TYPE_CHECKING:
    from dfstrans.data import Episodes

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
data_app = typer.Typer(no_args_is_help=True, help="Look at recordings, and convert them.")
app.add_typer(data_app, name="data")
app.add_typer(cli_simulate.app, name="simulate")
app.command("compare", epilog=cli_compare.EXAMPLE)(cli_compare.compare)
app.command("reproduce", epilog=cli_reproduce.EXAMPLE)(cli_reproduce.reproduce)
app.command("encoding", epilog=cli_encoding.EXAMPLE)(cli_encoding.encoding)
app.command("inject", epilog=cli_inject.EXAMPLE)(cli_inject.inject)

Data = Annotated[Path, typer.Argument(help="A file or folder of recordings.", show_default=False)]
Model = Annotated[Path, typer.Argument(help="A saved model's folder.", show_default=False)]
reading = options_from(ReadOptions, into="read", panel="Reading the recordings")
shaping = options_from(NetworkSettings, into="network", exclude=("n_sensors",), panel="The network")
shaping_tuned = options_from(
    NetworkSettings, into="network", exclude=("n_sensors",), panel="The network", defaults=PRESETS["tuned"]
)
training = options_from(TrainingSettings, into="training", panel="Training", defaults=PRESETS["tuned"])


def main() -> None:
    """Run the command line. Exit code 0: done; 1: done, with a negative result, or interrupted; 2: bad input."""
    debug = "--debug" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    warnings.showwarning = _show_warning
    try:
        with settings_as_options():
            app(arguments)
    except DfstransError as error:
        if debug:
            traceback.print_exc()
            sys.exit(2)
        _fail(str(error), 2)
    except KeyboardInterrupt:
        _fail("interrupted", 1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except Exception as error:
        if debug:
            raise
        _fail(f"something went wrong inside dfstrans ({type(error).__name__}: {error}); run again with --debug", 1)


@app.callback(epilog="Every command takes --debug, for the full traceback of an error.")
def dfstrans(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=lambda on: _version(on))
    ] = False,
) -> None:
    """What went wrong, when and where: detect and diagnose anomalies in recordings of many sensors."""


@data_app.command("check", epilog="Example: dfstrans data check recordings.csv")
@reading
def data_check(data: Data, read: dict[str, Any], as_json: AsJson = False) -> None:
    """Tell what was read and what is suspicious about it.

    The exit code is 1 when something keeps one from training; recordings without labels are exempt: they can be
    predicted.
    """
    from dfstrans.data import load_episodes
    from dfstrans.data.check import check_episodes

    episodes = load_episodes(data, **read)
    with progress("checking", len(episodes)) as advance:
        found = check_episodes(episodes, advance)
    if as_json:
        print_json(found.to_dict())
    else:
        print(episodes)
        print(f"  missing   {found.missing:.2%} of the values")
        if found.fault_kinds:
            print("  kinds     " + ", ".join(f"{kind} {n}" for kind, n in found.fault_kinds.items()))
        for finding in found.findings:
            print(f"{finding.level}: {finding.message}")
        if not found.findings:
            print("nothing suspicious was found")
    raise typer.Exit(0 if found.ok else 1)


@data_app.command("convert", epilog="Example: dfstrans data convert recordings.csv recordings.h5")
@reading
def data_convert(
    data: Data,
    out: Annotated[Path, typer.Argument(help="Where to write: .h5, .parquet or .npz.", show_default=False)],
    read: dict[str, Any],
    as_json: AsJson = False,
) -> None:
    """Read recordings of any known format and write them as HDF5, Parquet or npz."""
    from dfstrans.data import load_episodes, save_episodes

    episodes = load_episodes(data, **read)
    save_episodes(episodes, out)
    print_result({"written": str(out), "episodes": len(episodes), "anomalous": episodes.n_anomalous}, as_json)


@app.command(epilog="Example: dfstrans train recordings.csv --out model --segment-length 50")
@reading
@shaping_tuned
@training
def train(
    data: Data,
    out: Annotated[Path, typer.Option("--out", help="Folder of the model to write.", show_default=False)],
    read: dict[str, Any],
    network: dict[str, Any],
    training: dict[str, Any],
    split: Annotated[
        Literal["random", "grouped"], typer.Option(help="How the 70/15/15 parts are cut; grouped: no group in two.")
    ] = "random",
    preset: Annotated[
        Preset,
        typer.Option(help="What the other options start from: our settings, or the network and training of the paper."),
    ] = "tuned",
    model: Annotated[
        str, typer.Option("--model", help=f"The kind of detector: {', '.join(MODELS)}; see docs/rivals.md.")
    ] = DFSTRANS,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train a detector on 70 % of the episodes, settle it on 15 %, test it on the other 15 %, and save it."""
    from dfstrans.artifact import holds_model
    from dfstrans.data import load_episodes
    from dfstrans.pipeline import partial_folder, train_model

    settings = _settings_of(model, preset, {**network, **training})
    episodes = load_episodes(data, **read)
    remark(repr(episodes))
    replaces = holds_model(out)
    warn_of_overlap(split, read)
    try:
        detector = train_model(episodes, out, split=split, resume=resume, progress=True, model=model, **settings)
    except KeyboardInterrupt:
        _fail(f"interrupted; the finished epochs are kept in {partial_folder(out)}: go on with --resume", 1)
    if replaces:
        remark(f"the earlier model in {out} was replaced")
    result = {
        "model": str(out),
        "parameters": detector.n_parameters_,
        "best_epoch": detector.best_epoch_,
        "epochs": len(detector.log_),
        "threshold": detector.threshold_.model_dump(),
        "calibration": detector.calibration_.model_dump(),
        "metrics": detector.metrics_,
    }
    if as_json:
        print_json(result)
        return
    _print_figures(detector.metrics_)
    print(f"threshold {detector.threshold_.value:.4g} ({detector.threshold_.rule}: {detector.threshold_.note})")
    print(f"model     {out}")


@app.command(epilog="Example: dfstrans evaluate model recordings.csv --part test")
@reading
def evaluate(
    model: Model,
    data: Data,
    read: dict[str, Any],
    part: Annotated[
        Literal["all", "train", "validation", "test"],
        typer.Option(help="All episodes, or a part of the set the model was trained from."),
    ] = "all",
    diagnosis: Annotated[
        bool, typer.Option("--diagnosis", help="Also compare the diagnoses of detected anomalies with known causes.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare a model's decisions with the labels of recordings, and its diagnoses with known causes."""
    from dfstrans.baselines import load_detector
    from dfstrans.data import load_episodes
    from dfstrans.pipeline import PARTS, evaluate_diagnoses, part_of

    detector, episodes = load_detector(model), load_episodes(data, **read)
    tested = part_of(detector, episodes, part)
    figures = detector.evaluate(tested).to_dict()
    outside = _outside(detector, episodes)
    found = None
    if diagnosis:
        train = part_of(detector, episodes, "train") if part in PARTS else None
        found = evaluate_diagnoses(detector, tested, train, progress)
    if as_json:
        print_json({"part": part, **figures, "out_of_range": outside, **({"diagnosis": found} if found else {})})
        return
    _print_figures({part: figures})
    if found is not None:
        _print_assessment(found)


@app.command(epilog="Example: dfstrans predict model new_recordings.csv --out predictions.csv")
@reading
def predict(
    model: Model,
    data: Data,
    read: dict[str, Any],
    out: Annotated[Path | None, typer.Option("--out", help="Write a CSV file instead of printing.")] = None,
    as_json: AsJson = False,
) -> None:
    """Give the anomaly probability of each episode, and the decision."""
    from dfstrans.baselines import load_detector
    from dfstrans.files import written_atomically
    from dfstrans.pipeline import predict_table

    detector, episodes = load_detector(model), _with_or_without_labels(data, read)
    table = predict_table(detector, episodes)
    outside = _outside(detector, episodes)
    if out is not None:
        with written_atomically(out) as temporary:
            table.to_csv(temporary, index=False)
        remark(f"predictions of {len(table)} episodes written to {out}")
    if as_json:
        rows = table.to_dict(orient="records")
        print_json({"threshold": detector.threshold_.value, "out_of_range": outside, "predictions": rows})
    elif out is None:
        print(table.to_csv(index=False), end="")


@app.command(epilog="Example: dfstrans diagnose model new_recordings.csv --episode 17")
@reading
def diagnose(
    model: Model,
    data: Data,
    read: dict[str, Any],
    episode: Annotated[
        list[str] | None, typer.Option("--episode", help="Only this one, by its id. May be repeated.")
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust/--no-trust", help="Judge the attention of each anomalous episode; takes longer.")
    ] = True,
    all_episodes: Annotated[bool, typer.Option("--all", help="Also those that are not called anomalous.")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Write a CSV table: one row per sensor and moment.")] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Write a page (FILE.html, for one --episode), or a folder with a page each."),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option("--figures", help="Write the figures for print into a folder, as PDF and SVG.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Tell which sensors, at which moments, are unlike normal, and how they hang together.

    Without --episode: of every episode that is called anomalous.
    """
    from dfstrans.diagnoser import Diagnoser
    from dfstrans.pipeline import diagnose_table, select_ids

    detector, beside = Diagnoser.load(model), _with_or_without_labels(data, read)
    episodes = select_ids(beside, episode) if episode else beside
    if html is not None and html.suffix == ".html" and len(episodes) > 1:
        raise DfstransError(
            f"expected one --episode for the page {html}, got {len(episodes)} episodes; choose one, or give a folder's "
            "name for a page each"
        )
    with progress("diagnosing", len(episodes)) as advance:
        keep_normal = all_episodes or bool(episode)
        found = diagnose_table(
            detector,
            episodes,
            out,
            pages=html,
            figures=figures,
            beside=beside,
            keep_normal=keep_normal,
            trust=trust,
            advance=advance,
        )
    _outside(detector, episodes)
    if out is not None:
        remark(f"diagnoses of {len(found)} episodes written to {out}")
    if html is not None:
        remark(f"pages written: {html if html.suffix == '.html' else html / 'index.html'}")
    if figures is not None:
        remark(f"figures written: {figures}")
    if as_json:
        print_json(found)
        return
    for content in sorted(found, key=lambda content: -content["severity"]):
        print(content["summary"])
    if not found:
        print(f"none of {len(episodes)} episodes is called anomalous; --all shows them nevertheless")


@app.command(epilog="Example: dfstrans export model --format onnx --data recordings.csv")
@reading
def export(
    model: Model,
    read: dict[str, Any],
    to: Annotated[Literal["onnx"], typer.Option("--format", help="What to write.", show_default=False)],
    out: Annotated[Path | None, typer.Option("--out", help="The file to write (default: MODEL.onnx).")] = None,
    data: Annotated[
        Path | None, typer.Option("--data", help="Recordings to compare with torch on (default: generated ones).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a model as one file for `dfstrans.runtime`, which needs no torch.

    The file is compared with torch before it is written; how far the two differ is added to the model card.
    """
    from dfstrans.data import load_episodes
    from dfstrans.onnx_export import export_onnx

    place = model.absolute().with_name(f"{model.absolute().name}.onnx") if out is None else out
    if data is None and read:
        raise DfstransError("expected --data with options for reading, got none; name the recordings, or drop them")
    found = export_onnx(model, place, None if data is None else load_episodes(data, **read))
    result = {"written": str(place), "megabytes": round(place.stat().st_size / 1e6, 2), **found.model_dump(mode="json")}
    if as_json:
        print_json(result)
        return
    episodes = f"{found.episodes} {'generated' if found.generated else 'given'} episodes"
    print(f"written   {place}, {result['megabytes']} MB")
    print(f"compared  with torch on {episodes}: a logit differs by at most {found.logit_difference:.2g}")
    if found.generated:
        remark("the episodes were random walks in the range of training; give real ones with --data")


@app.command(epilog="Example: dfstrans summary --sensors 20 --segment-length 100 --segments 80")
@shaping
def summary(
    network: dict[str, Any],
    model: Annotated[Path | None, typer.Argument(help="A saved model's folder.", show_default=False)] = None,
    sensors: Annotated[int | None, typer.Option(help="Number of sensors.", show_default=False)] = None,
    segments: Annotated[int | None, typer.Option(help="Number of segments.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a network, or a saved model, consists of."""
    from dfstrans.summary import model_summary, network_summary

    if model is not None:
        if sensors or segments or network:
            raise DfstransError("expected a saved model or the shape of a network, got both; give one of them")
        content = model_summary(model)
    else:
        if sensors is None or segments is None or "segment_length" not in network:
            raise DfstransError(
                "expected a saved model's folder, or --sensors, --segment-length and --segments, got neither; "
                "for example: dfstrans summary --sensors 20 --segment-length 100 --segments 80"
            )
        for option, count in (("--sensors", sensors), ("--segments", segments)):
            if count < 1:
                raise DfstransError(f"expected {option} to be a whole number of at least 1, got {count}; correct it")
        content = network_summary(NetworkSettings(n_sensors=sensors, **network), segments)
    if as_json:
        print_json(content)
        return
    for name, count in content["parts"].items():
        print(f"{name:<20}{count:>12,}")
    print(f"{'parameters':<20}{content['parameters']:>12,}")
    if "d_model" in content:
        print(f"{'d_model':<20}{content['d_model']:>12,}")
    if "metrics" in content:
        _print_figures(content["metrics"])


@app.command(epilog="Example: dfstrans demo --out demo")
def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for everything the demo writes.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Seed of the journeys and of the training.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Simulate elevator journeys, train, evaluate, diagnose, and write an HTML report."""
    from dfstrans.demo import run_demo

    result = run_demo(out, seed=seed, remark=remark)
    if as_json:
        print_json(result)
        return
    _print_figures(result["metrics"])
    print(f"report    {Path(result['report']).resolve()}")
    print(f"diagnoses {Path(result['diagnoses']).resolve()}")


def _settings_of(model: str, preset: Preset, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a kind of detector, from a preset and the options that were given, checked."""
    if model == DFSTRANS:
        settings = {**PRESETS[preset], **given}
        check_settings(settings)
        return settings
    known = MODELS[model]().get_params()
    foreign = [spelled(name) for name in given if name not in known]
    foreign += ["--preset"] if preset != "tuned" else []
    if foreign:
        raise DfstransError(
            f"expected options that {model} has, got {', '.join(foreign)}; drop them, or use --model {DFSTRANS}"
        )
    return given


def _with_or_without_labels(data: Path, read: dict[str, Any]) -> Episodes:
    """The recordings for a command that can do without labels: those that cannot be read are left out, aloud."""
    from dfstrans.data import load_episodes
    from dfstrans.data.readers.convert import UnreadableLabelsError

    try:
        return load_episodes(data, **read)
    except UnreadableLabelsError as error:
        if error.column is None:
            raise
        remark(f"the recordings are read without their labels: {error}")
        return load_episodes(data, **{**read, "drop_sensors": [*read.get("drop_sensors", ()), error.column]})


def _outside(detector: Any, episodes: Any) -> dict[str, float]:
    """The share of values outside the training range; said aloud where it is more than a hundredth."""
    from dfstrans.pipeline import out_of_range

    shares = out_of_range(detector, episodes)
    much = [f"{name} ({share:.0%})" for name, share in shares.items() if share > 0.01]
    if much:
        shown = ", ".join(much[:5]) + (f" and {len(much) - 5} more" if len(much) > 5 else "")
        warnings.warn(f"values outside the range seen in training: {shown}", stacklevel=2)
    return shares


def _print_assessment(found: dict[str, Any]) -> None:
    """How good the rankings of detected anomalies are, beside chance, and whether the decision follows it."""
    from dfstrans.diagnosis.assessment import headline

    print(f"\ndiagnoses of {found['detected']} detected episodes with a known cause; attention: {found['support']}")
    rows = headline(found)
    print(f"{'level':<10}{'metric':<15}{'kind':<16}" + "".join(f"{name:>11}" for name in rows[0][3]))
    for level, metric, kind, values in rows:
        shown = ("-" if value is None else f"{value:.2f}" for value in values.values())
        print(f"{level:<10}{metric:<15}{kind:<16}" + "".join(f"{value:>11}" for value in shown))
    for name, why in found["missing"].items():
        print(f"without {name}: {why}")
    print(f"\n{'does the decision follow what is shown?':<41}{'shown':>11}{'random':>11}")
    for name, value in found["curves"]["figures"].items():
        print(f"{name:<41}{value:>11.2f}{found['curves']['random_figures'][name]:>11.2f}")


def _version(on: bool) -> None:
    if on:
        print(__version__)
        raise typer.Exit


def _fail(message: str, code: int) -> Any:
    print(f"dfstrans: {message}", file=sys.stderr)
    sys.exit(code)


def _show_warning(message: Any, *_: Any, **__: Any) -> None:
    remark(f"warning: {message}")


def _print_figures(metrics: dict[str, dict[str, Any]]) -> None:
    """One column per part, one row per figure."""
    from dfstrans.model_card import FIGURES

    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for part in metrics:
        table.add_column(part, justify="right")
    for key, name in FIGURES.items():
        cells = [figures.get(key) for figures in metrics.values()]
        table.add_row(name, *("–" if cell is None else f"{cell:.4g}" for cell in cells))
    Console(width=100).print(table)
