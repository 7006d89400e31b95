"""Reader for a folder with a file, or a folder of files, per episode; its subfolders may name labels and groups."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from dfstrans.data.episodes import Episodes
from dfstrans.data.problems import NoRecordingsError, Problem, current_problems, report, reporting
from dfstrans.data.readers.columns import Roles, to_texts, warn_of_second_label, without_missing_columns
from dfstrans.data.readers.containers import LAYOUT_OPTIONS, ContainerTable, is_container, with_likely_layout
from dfstrans.data.readers.faults import is_fault_table, with_faults
from dfstrans.data.readers.gathering import gather
from dfstrans.data.readers.joining import join_files, join_recording, lacks_zone, require_same_columns
from dfstrans.data.readers.labels import (
    LabelTable,
    find_table,
    label_meaning,
    likely_normal,
    read_label_table,
    roles_in_label_table,
    roles_of_recordings,
    understands,
    with_kinds,
)
from dfstrans.data.readers.opening import Reader, ReadOptions
from dfstrans.data.readers.recordings import OF_TEXT, OTHER_FORMATS, likely_id, open_recording
from dfstrans.data.readers.rows import Rows, check_rows, interpret_labels, read_rows
from dfstrans.data.readers.tables import SPREADSHEETS, Table, is_table, open_table, table_stem, without_suffix
from dfstrans.data.readers.tdms import is_tdms, with_likely_group
from dfstrans.errors import DfstransError, Note, counted, list_few, option_name

_LEVELS = ("label", "group", "-")
_SAME_RATE = 0.2  # maximum distance of a file's interval from a multiple of the usual one


def _read_folder(path: Path, options: ReadOptions) -> Episodes:
    """Read one episode per file, or per folder of files; its id is the path within the folder, without the suffix."""
    label_path = options.labels or find_table(path, "labels") or find_table(path, "label")
    files = _find_files(path, label_path, options)
    if is_container(files[0]):
        options = with_likely_layout(files, options)
    elif is_tdms(files[0]):
        with reporting(files[0], option_name("skip_bad_files", True)):
            options = with_likely_group(files[0], options)
    skip = option_name("skip_bad_files", True)
    tables: list[Table] = []
    for file in files:
        with reporting(file, skip):
            _require_depth(path, file, options)
            tables.append(_open(file, options))
    there = None if label_path is not None else _table_of_files(tables)
    if there is not None:
        label_path = there.path
        tables = [table for table in tables if table is not there]
        files = [file for file in files if file != label_path]
    names = list(dict.fromkeys(name for table in tables for name in table.names))
    with reporting():
        there = open_table(label_path) if label_path is not None and there is None else there
    if names:
        options = without_missing_columns(names, options, path, there)
    elsewhere = roles_in_label_table(names, there, options)
    label_table = None
    with reporting():
        if there is not None:
            label_table = read_label_table(there, options, elsewhere, ids_are_files=True)
            _report_other_episodes(path, files, label_table, options)
    parts: list[Rows] = []
    for table in tables:
        with reporting(table.path, skip):
            roles = roles_of_recordings(table.names, options, elsewhere, table.path)
            parts.append(_read_file(path, table, roles, options))
    if len(tables) == len(parts) == 1:
        _warn_of_long_table(tables[0], roles)
    parts = check_rows(parts, options, skip, labelled=label_path is not None)
    parts = interpret_labels([one for part in parts for one in part.by_id()], options, path)
    if _joins_files(options):
        parts = _join_folders(parts, path, files, options, skip)
    parts = _check_alone(_with_same_columns(parts, skip), options, skip)
    parts = _without_bad_files(parts, files, path, options)
    warn_of_second_label(parts[0].sensors, parts[0].label_column, parts[0].source)
    episodes = gather(join_files(parts), options)
    by_row = label_table is None and episodes.labels is not None and not any(table.one_label for table in tables)
    if label_table is not None:
        episodes = label_table.apply(episodes[[name in label_table.label for name in episodes.ids.tolist()]])
    with reporting():
        episodes = _with_folder_roles(episodes, path, options)
    return with_faults(episodes, path, options, labelled_by_row=by_row)


# ---- files ------------------------------------------------------------------------------------------------------


def _find_files(path: Path, label_path: Path | None, options: ReadOptions) -> list[Path]:
    about = [file.resolve() for file in (label_path, options.faults) if file is not None]
    belongs = _format_of_most(path)
    readable = [
        file
        for file in sorted(path.rglob("*"))
        if _is_recording(file, path) and file.resolve() not in about and not _is_fault_table(file, options)
    ]
    found = [file for file in readable if belongs(file)]
    _report_other_formats([file for file in readable if not belongs(file)])
    top = [file for file in found if file.parent == path]
    if top and len(top) < len(found) and options.folders is None:
        report(
            Problem(
                f"skipped {counted(len(found) - len(top), 'file')} in subfolders of {path}, because the folder "
                f"itself contains recordings; if they belong to it, say what the folders mean "
                f"({option_name('folders', 'label')}, group or -)",
                level="warning",
                count=len(found) - len(top),
                file=next(file for file in found if file not in top),
            )
        )
        found = top
    sheets = [file for file in sorted(path.iterdir()) if file.suffix.lower() in SPREADSHEETS]
    if sheets and label_path is None:
        report(
            Problem(
                f"skipped {list_few(sheet.name for sheet in sheets)}: spreadsheets are not read; if one holds the "
                f"labels, save its sheet as CSV and name that ({option_name('labels', sheets[0].with_suffix('.csv'))})",
                level="warning",
                count=len(sheets),
                file=sheets[0],
            )
        )
    if not found:
        raise DfstransError(
            f"expected one file per episode in {path}, got only label or fault tables; add the recordings as tables "
            "or .npy"
        )
    return found


def _report_other_formats(files: Sequence[Path]) -> None:
    if files:
        table = next(filter(_is_tabular, files), None)
        labels = (
            "" if table is None else f"; if {table.name} holds the labels, name it ({option_name('labels', table)})"
        )
        report(
            Problem(
                f"skipped {counted(len(files), 'file')} of another format than most: "
                f"{list_few(file.name for file in files)}; if they are recordings, read them on their own{labels}",
                level="warning",
                count=len(files),
                file=files[0],
                kind="another format",
            )
        )


def _open(file: Path, options: ReadOptions) -> Table:
    return ContainerTable(file, options) if is_container(file) else open_recording(file, options)


def _is_fault_table(file: Path, options: ReadOptions) -> bool:
    try:
        return is_fault_table(file, options)
    except DfstransError:
        return False  # a damaged file is reported when it is read


def _is_recording(file: Path, folder: Path) -> bool:
    hidden = any(part.startswith((".", "~$")) for part in file.relative_to(folder).parts)
    other = hidden or file.stem.lower() in ("readme", "license", "licence", "notes")
    return not other and file.is_file() and any(of(file) for of in _FORMATS)


def _recognises(path: Path) -> bool:
    return path.is_dir() and any(_is_recording(file, path) for file in path.rglob("*"))


def _format_of_most(path: Path) -> Callable[[Path], bool]:
    """Return whether a file has the format of most files in a folder; tables among others are about them."""
    files = [file for file in path.rglob("*") if _is_recording(file, path)] if path.is_dir() else []
    return next((of for of in _FORMATS if 2 * sum(map(of, files)) > len(files)), _is_tabular)


def _is_tabular(file: Path) -> bool:
    return is_table(file) or file.suffix == ".npy"


_FORMATS = (is_container, is_tdms, _is_tabular)


def _joins_files(options: ReadOptions) -> bool:
    """Return whether the files of a folder are one recording."""
    return _given_roles(options)[-1:] == ["recording"]


def _episode_id(folder: Path, file: Path, options: ReadOptions) -> str:
    inside = file.relative_to(folder).parent
    return (inside if _joins_files(options) else inside / table_stem(file)).as_posix()


def _require_depth(path: Path, file: Path, options: ReadOptions) -> None:
    """Reject a file that is not in a folder of a recording, if each folder is one."""
    levels, roles = len(file.relative_to(path).parts) - 1, _given_roles(options)
    if _joins_files(options) and levels != len(roles):
        raise DfstransError(
            f"expected {file} within {counted(len(roles), 'folder level')} of {path}, the last of which is the "
            f"recording ({option_name('folders', options.folders)}), got {levels}; move the file, or say what each "
            f"level means ({option_name('folders')})"
        )


def _report_other_episodes(path: Path, files: Sequence[Path], table: LabelTable, options: ReadOptions) -> None:
    """Report files without a label and labels without a file."""
    ids = {_episode_id(path, file, options): file for file in files}
    without_file = sorted(set(table.label) - ids.keys())
    unlabelled = sorted(ids.keys() - set(table.label))
    remedy = "spell the ids identically (001 is not 1), or add or remove files or rows"
    what = "folder" if _joins_files(options) else "file"
    both = [f"no {what} for {list_few(without_file)}"] if without_file else []
    both += [f"no label for {list_few(unlabelled)}"] if unlabelled else []
    message = f"expected one {what} in {path} for each row of {table.path}, got {' and '.join(both)}; {remedy}"
    for name in unlabelled:
        report(Problem(message, file=ids[name], kind="label table"))
    if without_file and not unlabelled:
        report(Problem(message, count=len(without_file), kind="label table"))


def _table_of_files(tables: Sequence[Table]) -> Table | None:
    """Return the table whose id column lists the other files: their label table, under another name than `labels`."""
    columns = Counter(table.names for table in tables)
    stems = {without_suffix(table.path.name) for table in tables}
    for table in tables:
        if len(tables) < 3 or columns[table.names] > 1:
            continue
        with suppress(DfstransError):
            for column in table.read(dict.fromkeys(table.names, "text")).values():
                listed = {without_suffix(name) for name in to_texts(column).drop_null().to_pylist()}
                if listed and 2 * len(listed & stems) > len(listed):
                    warnings.warn(f"labels are taken from {table.path.name}, which lists the files", Note, stacklevel=4)
                    return table
    return None


# ---- checks that go on with the next file -----------------------------------------------------------------------


def _read_file(folder: Path, table: Table, roles: Roles, options: ReadOptions) -> Rows:
    """Read the recordings of a file: one, or one for each value of the id column that the options name.

    In the latter case, the ids are those of machines that recur in other files; they are also the groups.
    """
    rows, name = read_rows(table, roles), _episode_id(folder, table.path, options)
    if len(rows.ids) > 1 and (options.id_column is None or _joins_files(options)):
        raise DfstransError(
            f"expected one episode in {table.path}, got {len(rows.ids)} ids in its column {roles.id!r}; if each is a "
            f"recording of its own, name the column ({option_name('id_column', roles.id)}); if it is a long table, "
            f"read the file itself, else drop the column ({option_name('drop_sensors', roles.id)})"
        )
    machines = [] if rows.group is None else rows.group.unique().to_pylist()
    if len(rows.ids) == 1 and len(machines) > 1 and not _joins_files(options):
        report(
            Problem(
                f"expected one machine in {table.path}, got {list_few(machines)} in its column {roles.group!r}; if "
                f"each has a recording of its own in this file, name the column "
                f"({option_name('id_column', roles.group)})",
                file=table.path,
                option=option_name("skip_bad_files", True),
                kind="several machines",
            )
        )
        rows = replace(rows, ids=rows.group.dictionary.to_pylist(), episode=rows.group.indices.to_numpy())
    if len(rows.ids) == 1:
        return replace(rows, ids=[name])
    group = pa.DictionaryArray.from_arrays(rows.episode, rows.ids) if rows.group is None else rows.group
    return replace(rows, ids=[f"{name}_{one}" for one in rows.ids], group=group)


def _join_folders(parts: list[Rows], path: Path, files: Sequence[Path], options: ReadOptions, skip: str) -> list[Rows]:
    """Join the files of each folder to one recording; skip a recording with a bad file."""
    bad = current_problems().bad_files()
    recordings = []
    for folder in sorted({file.parent for file in files}):
        spoilt = sorted(file.name for file in bad if file.parent == folder)
        if spoilt and options.skip_bad_files:
            report(Problem(f"a part of the recording is skipped: {list_few(spoilt)}", file=folder))
        own = [part for part in parts if part.source.parent == folder]
        if own and not spoilt:
            with reporting(folder, skip):
                recordings.append(join_recording(own, own[0].ids[0], folder, options))
    return recordings


def _warn_of_long_table(table: Table, roles: Roles) -> None:
    likely = likely_id(table, roles)
    if likely is not None:
        alone = f"{table.path} is the only file in its folder and is read as one episode"
        remedy = f"if its column {likely!r} holds the episode of each row, give the file itself"
        report(Problem(f"{alone}; {remedy}", level="warning", file=table.path))


def _with_same_columns(parts: list[Rows], skip: str) -> list[Rows]:
    """Skip files whose columns differ from those of most files."""
    if not parts:
        return []
    kinds = [(frozenset(part.sensors), lacks_zone(part)) for part in parts]
    usual, _ = Counter(kinds).most_common(1)[0]
    first = parts[kinds.index(usual)]
    kept = []
    for part in parts:
        with reporting(part.source, skip):
            require_same_columns(first, part)
            kept.append(part)
    return kept


def _check_alone(parts: list[Rows], options: ReadOptions, skip: str) -> list[Rows]:
    """Skip files whose time is unusable, or whose sampling rate differs from that of most files."""
    kept: list[Rows] = []
    intervals: list[float | None] = []
    for part in parts:
        with reporting(part.source, skip):
            intervals.append(gather(part, options).interval)
            kept.append(part)
    if options.irregular_time == "ignore" or options.resample is not None:
        return kept
    known = Counter(interval for interval in intervals if interval is not None)
    usual = known.most_common(1)[0][0] if known else None
    same = []
    for part, interval in zip(kept, intervals, strict=True):
        ratio = 1.0 if interval is None or usual is None else interval / usual
        if abs(ratio - max(round(ratio), 1)) > _SAME_RATE:
            report(
                Problem(
                    f"expected one sampling rate in all episodes (median step {usual:g}), got others in "
                    f"{part.ids[0]} (step {interval:g}); resample all recordings to one rate "
                    f"({option_name('resample', f'{max(known):g}')})",
                    file=part.source,
                    option=skip,
                    kind="sampling rate",
                )
            )
        else:
            same.append(part)
    return same


def _without_bad_files(parts: list[Rows], files: Sequence[Path], path: Path, options: ReadOptions) -> list[Rows]:
    bad = current_problems().bad_files() & {*files, *(file.parent for file in files)}
    if options.skip_bad_files:
        current_problems().skip(sorted(bad))
        parts = [part for part in parts if part.source not in bad]
    if not parts:
        raise NoRecordingsError(f"expected recordings without problems in {path}, got none; correct the files")
    return parts


# ---- folders that name labels and groups ------------------------------------------------------------------------


def _given_roles(options: ReadOptions) -> list[str]:
    return [] if options.folders is None else [role.strip() for role in options.folders.split(",")]


def _with_folder_roles(episodes: Episodes, path: Path, options: ReadOptions) -> Episodes:
    """Take labels and groups from the names of subfolders."""
    levels = [name.split("/")[:-1] for name in episodes.ids.tolist()]
    depth = min(map(len, levels))
    roles = _folder_roles(levels, depth, episodes, path, options)
    if "label" in roles:
        words = [level[roles.index("label")] for level in levels]
        meaning = label_meaning(Counter(words), options, f"the folder names of {path}")
        episodes = episodes.with_labels([meaning.label[word] for word in words])
        episodes = with_kinds(episodes, [meaning.kind.get(word, "") for word in words])
    if "group" in roles and episodes.groups is None:
        groups = np.array([level[roles.index("group")] for level in levels], dtype=np.str_)
        episodes = replace(episodes, groups=groups)
    return episodes


def _folder_roles(
    levels: list[list[str]], depth: int, episodes: Episodes, path: Path, options: ReadOptions
) -> list[str]:
    """Return the role of each folder level: from the options, else the label where the names are usual labels."""
    roles = _given_roles(options)[: -1 if _joins_files(options) else None]
    if not set(roles) <= set(_LEVELS) or len(roles) > depth or any(roles.count(r) > 1 for r in _LEVELS[:2]):
        raise DfstransError(
            f"expected label, group or - for each of the {depth} folder levels of {path}, each role once, perhaps "
            f"followed by recording ({option_name('folders')}), got {options.folders!r}; correct it"
        )
    if roles:
        return roles
    if episodes.labels is not None or depth == 0:
        return []
    for level in range(depth):
        names = sorted({of_file[level] for of_file in levels})
        if understands(names, options):
            warnings.warn(f"labels are taken from the folders {list_few(names)}", Note, stacklevel=4)
            return ["-"] * level + ["label"]
    words = Counter(of_file[0] for of_file in levels)
    normal = option_name("normal_value", likely_normal(words))
    report(
        Problem(
            f"the recordings have no labels; if the folders {list_few(sorted(words))} are their labels, say which is "
            f"normal ({normal}) or what each means ({option_name('label_map', ...)}); "
            f"if they are machines, use {option_name('folders', 'group')}, if the files of each are one recording, "
            f"{option_name('folders', 'recording')}",
            level="warning",
        )
    )
    return []


_OF_FOLDERS = frozenset(ReadOptions.model_fields) - OTHER_FORMATS
CONTAINER_FOLDER = Reader(
    name="a folder with one HDF5 or MATLAB file of any layout per episode, as a folder of tables",
    options=_OF_FOLDERS - OF_TEXT - {"time_column", "sort_time"} | LAYOUT_OPTIONS,
    recognises=lambda path: _format_of_most(path) is is_container,
    read=_read_folder,
)
TDMS_FOLDER = Reader(
    name="a folder with one TDMS file per episode, as a folder of tables",
    options=_OF_FOLDERS - OF_TEXT | {"dataset"},
    recognises=lambda path: _format_of_most(path) is is_tdms,
    read=_read_folder,
)
FOLDER = Reader(
    name="a folder with one table or .npy per episode, perhaps in subfolders by label, and perhaps labels.csv",
    options=_OF_FOLDERS,
    recognises=_recognises,
    read=_read_folder,
)
