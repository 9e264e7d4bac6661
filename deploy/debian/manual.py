#!/usr/bin/env python3
"""Writes man pages from the commands' own help: manual.py BINARY DIRECTORY.

One page for each command (stalecast.1, stalecast-serve.1, stalecast-webhooks-add.1), in mdoc, made of what
`stalecast --experimental-dump-help` prints. SOURCE_DATE_EPOCH gives the date.
"""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path


def escaped(text):
    """Text whose sentences begin lines, as mdoc wants it; nothing in it is a request or an escape."""
    text = re.sub(r"([.!?]['\")]*) +(?=\S)", r"\1\n", text).replace("\\", "\\e").replace("-", "\\-")
    return "\n".join("\\&" + line if line[:1] in (".", "'") else line for line in text.split("\n"))


def literal(lines):
    """Lines as they stand."""
    return "\n".join(escaped(line.replace(" ", "\0")).replace("\0", " ") for line in lines)


def sentence(text):
    return text if text.endswith((".", "!", "?", ":")) else text + "."


def prose(discussion):
    """Paragraphs are filled; what is indented is shown as it stands; a line in capitals, or `Examples:`, is a heading."""
    for block in re.split(r"\n\s*\n", discussion.strip("\n")):
        lines = block.split("\n")
        shown = []
        for line in [*lines, ""]:
            if line.startswith("  "):
                shown.append(line)
                continue
            if shown:
                yield f".Bd -literal -compact\n{literal(shown)}\n.Ed"
                shown = []
            if re.fullmatch(r"[A-Z][A-Z ,]+", line) or re.fullmatch(r"[A-Z][a-z ]+:", line):
                yield f".Ss {escaped(line.rstrip(':').capitalize())}"
            elif line:
                yield f".Pp\n{escaped(line.strip())}"


def flag(argument):
    """The macros of an option's names, with its value."""
    names = [("Fl \\-" if name["kind"] == "long" else "Fl ") + escaped(name["name"]) for name in argument["names"]]
    value = f" Ar {escaped(argument['valueName'])}" if argument["kind"] == "option" else ""
    return " , ".join(name + value for name in names)


def synopsis(name, command, arguments):
    yield f".Nm {name}"
    for argument in arguments:
        said = f"Ar {escaped(argument['valueName'])}" if argument["kind"] == "positional" else flag(argument)
        more = " ..." if argument["isRepeating"] else ""
        yield f".Op {said}{more}" if argument["isOptional"] else f".{said}{more}"
    if command.get("subcommands"):
        yield ".Ar command"


def page(command, path, pages, date):
    name = " ".join(path)
    arguments = [a for a in command.get("arguments", []) if a["shouldDisplay"]]
    yield f".Dd {date}\n.Dt {'-'.join(path).upper()} 1\n.Os"
    yield f".Sh NAME\n.Nm {'-'.join(path)}\n.Nd {escaped(command['abstract'].rstrip('.'))}"
    yield ".Sh SYNOPSIS"
    yield from synopsis(name, command, arguments)
    yield f".Sh DESCRIPTION\n{escaped(sentence(command['abstract']))}"
    yield from prose(command.get("discussion", ""))
    if arguments:
        yield ".Sh OPTIONS\n.Bl -tag -width Ds"
        for argument in arguments:
            head = f"Ar {escaped(argument['valueName'])}" if argument["kind"] == "positional" else flag(argument)
            yield f".It {head}\n{escaped(sentence(argument.get('abstract', '')))}"
            if argument.get("defaultValue") and "default" not in argument.get("abstract", ""):
                yield f"Default: {escaped(argument['defaultValue'])}."
        yield ".El"
    children = [p for p in pages if p[:-1] == path]
    if children:
        yield ".Sh COMMANDS\n.Bl -tag -width Ds"
        for child in children:
            yield f".It Xr {'-'.join(child)} 1\n{escaped(sentence(pages[child]['abstract']))}"
        yield ".El"
    near = [path[:-1]] if len(path) > 1 else []
    if near:
        yield f".Sh SEE ALSO\n.Xr {'-'.join(near[0])} 1"


def collect(command, path, pages):
    pages[path] = command
    for child in command.get("subcommands", []):
        if child["commandName"] != "help" and child.get("shouldDisplay", True):
            collect(child, (*path, child["commandName"]), pages)


def main(binary, directory):
    told = subprocess.run([binary, "--experimental-dump-help"], capture_output=True, text=True, check=True).stdout
    pages = {}
    collect(json.loads(told)["command"], ("stalecast",), pages)
    moment = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))
    date = time.strftime("%B ", moment) + f"{moment.tm_mday}, {moment.tm_year}"
    for path, command in pages.items():
        text = "\n".join(page(command, path, pages, date)) + "\n"
        (Path(directory) / f"{'-'.join(path)}.1").write_text(text)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
