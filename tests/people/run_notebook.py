#!/usr/bin/env python3
"""Executes notebooks' cells, as Jupyter would where nbclient is installed, else one after the other in this process. All notebooks have one
kernel: what they import is imported once.

usage: run_notebook.py NOTEBOOK...
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


def in_jupyter(nbclient, notebooks):
    """In one kernel of Jupyter's; a cell's exception ends it."""
    client = nbclient.NotebookClient(notebooks[0], timeout=600)
    with client.setup_kernel():
        for notebook in notebooks:
            client.nb = notebook
            client.reset_execution_trackers()
            for index, cell in enumerate(notebook.cells):
                client.execute_cell(cell, index)


def main():
    texts = [pathlib.Path(path).read_text(encoding="utf-8") for path in sys.argv[1:]]
    try:
        import nbclient
        import nbformat
    except ImportError:
        for text in texts:
            plainly(json.loads(text))
        return
    in_jupyter(nbclient, [nbformat.reads(text, as_version=4) for text in texts])


main()
