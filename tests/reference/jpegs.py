"""JPEGs of every kind that cameras and programs write, and PIL's pixels of them and of resizing, for
host/data/src/images/image_folder/decoding_tests.rs.

python jpegs.py, with PIL 13: writes jpegs.json beside this file.
"""

import io
import json
import pathlib

import numpy
from PIL import Image


def written(image, **options):
    file = io.BytesIO()
    image.save(file, "JPEG", quality=90, **options)
    return file.getvalue()


def picture(height, width):
    """Smooth, so that what is lost is little."""
    y, x = numpy.mgrid[0:height, 0:width] / max(height, width)
    channels = [255 * x, 255 * y, 127 + 100 * numpy.sin(5 * (x + y))]
    return Image.fromarray(numpy.stack(channels, -1).round().astype(numpy.uint8))


def kinds():
    image = picture(20, 28)
    yield "baseline", image, {"subsampling": 0}
    yield "quartered colour", image, {"subsampling": 2}
    yield "halved colour", image, {"subsampling": 1}
    yield "progressive", image, {"progressive": True}
    yield "restarts", image, {"restart_marker_blocks": 2}
    yield "grey", image.convert("L"), {}
    yield "progressive grey", image.convert("L"), {"progressive": True}
    yield "four inks", image.convert("CMYK"), {}


def decoded(kind, image, options):
    file = written(image, **options)
    pixels = Image.open(io.BytesIO(file))
    # Printing's way from inks to colours is another: what went in.
    pixels = picture(20, 28) if kind == "four inks" else pixels.convert("RGB")
    return {"kind": kind, "file": list(file), "pixels": numpy.asarray(pixels).ravel().tolist()}


def resized(size):
    y, x = numpy.mgrid[0:9, 0:14]
    channels = [(x * 17 + y * 29) % 256, (x * x * 3 + y * 11) % 256, (x * y * 7 + 40) % 256]
    image = Image.fromarray(numpy.stack(channels, -1).astype(numpy.uint8))
    pixels = numpy.asarray(image.resize(size, Image.BILINEAR))
    return {"size": size[::-1], "pixels": pixels.ravel().tolist()}


reference = {
    "decoded": [decoded(*kind) for kind in kinds()],
    "resized": [resized(size) for size in [(5, 4), (6, 12), (20, 13), (14, 1)]],
}
place = pathlib.Path(__file__).with_name("jpegs.json")
place.write_text(json.dumps(reference) + "\n")
