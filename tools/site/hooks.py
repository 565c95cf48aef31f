"""Hooks of MkDocs: the navigation is navigation.py's, with the pages of the reference."""

import importlib.util
import pathlib

ROOT = pathlib.Path(__file__).parents[2]


def module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def entry(each):
    return each if isinstance(each, str) else {each[0]: each[1]}


def on_config(config):
    navigation = module(ROOT / "tools/site/navigation.py")
    headers = module(ROOT / "tests/docs/headers.py")
    rooms = navigation.rooms_of_headers(headers.public_headers(ROOT), headers.ROOMS)
    config.nav = []
    for title, entries in navigation.NAVIGATION:
        reference = [{room: pages} for room, pages in rooms] if title == navigation.REFERENCE else []
        config.nav.append({title: [entry(each) for each in entries] + reference})
    return config
