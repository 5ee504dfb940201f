#!/usr/bin/env python3
"""Executes a notebook's cells, as Jupyter would where nbclient is installed, else one after the other in this process.

usage: run_notebook.py NOTEBOOK
"""
import ast
import json
import pathlib
import sys


def plainly(notebook):
    """Without Jupyter: shows what a cell's last expression is worth."""
    names = {"__name__": "__main__"}
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        body = ast.parse("".join(cell["source"]))
        last = body.body.pop() if body.body and isinstance(body.body[-1], ast.Expr) else None
        exec(compile(body, "<cell>", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
            if hasattr(value, "_repr_html_"):
                assert "<" in value._repr_html_()
            print(repr(value)[:2000])


def main():
    text = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
    try:
        import nbclient
        import nbformat
    except ImportError:
        plainly(json.loads(text))
        return
    notebook = nbformat.reads(text, as_version=4)
    nbclient.NotebookClient(notebook, timeout=600).execute()


main()
