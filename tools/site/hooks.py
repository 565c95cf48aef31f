"""Hooks of MkDocs: the navigation is navigation.py's, with the pages of the reference."""

import importlib.util
import pathlib


def module(name):
    spec = importlib.util.spec_from_file_location(name, pathlib.Path(__file__).with_name(f"{name}.py"))
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def entry(each):
    return each if isinstance(each, str) else {each[0]: each[1]}


def on_config(config):
    navigation = module("navigation")
    config.nav = [{title: [entry(each) for each in entries]} for title, entries in navigation.NAVIGATION]
    return config
