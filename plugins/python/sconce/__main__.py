"""Runs the program `sconce` of this installation."""

import os
import sys

from .training.installation import program

if __name__ == "__main__":
    os.execv(program(), ["sconce", *sys.argv[1:]])
