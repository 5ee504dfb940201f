"""Reads event files of the `tensorboard` hook with TensorBoard's own readers and prints what is in them as JSON.

    python event_files.py RUN/tensorboard > event_files.json

`event_files.json` is made from the run of tests/hooks/tracking.rs, `what_the_tensorboard_package_reads`, with tensorboard 2.21.0
and protobuf 7 (TensorBoard needs no TensorFlow for this). Wall times are left out. Pictures are told by their size and the sum of
their pixels, as Pillow reads them.
"""
import io
import json
import sys

import numpy
import PIL.Image
from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator

everything = {kind: 0 for kind in ("scalars", "histograms", "images", "tensors", "compressedHistograms", "audio")}
reader = event_accumulator.EventAccumulator(sys.argv[1], size_guidance=everything)
reader.Reload()
tags = reader.Tags()
found = {"scalars": {}, "histograms": {}, "images": {}, "texts": {}}
for tag in tags["scalars"]:
    found["scalars"][tag] = [[event.step, event.value] for event in reader.Scalars(tag)]
for tag in tags["histograms"]:
    found["histograms"][tag] = [
        [event.step, event.histogram_value.min, event.histogram_value.max, event.histogram_value.num,
         event.histogram_value.sum, event.histogram_value.sum_squares, list(event.histogram_value.bucket_limit),
         list(event.histogram_value.bucket)]
        for event in reader.Histograms(tag)]
for tag in tags["images"]:
    found["images"][tag] = []
    for event in reader.Images(tag):
        picture = PIL.Image.open(io.BytesIO(event.encoded_image_string))
        assert picture.size == (event.width, event.height)
        pixels = int(numpy.asarray(picture).astype(int).sum())
        found["images"][tag].append([event.step, event.width, event.height, picture.mode, pixels])
for tag in tags["tensors"]:
    found["texts"][tag] = [
        [event.step, event.tensor_proto.string_val[0].decode()] for event in reader.Tensors(tag)]

# What the server itself uses: it turns everything into tensors. All tags must be there, with the plugins that show them.
server = plugin_event_accumulator.EventAccumulator(sys.argv[1])
server.Reload()
plugins = {"scalars": "scalars", "histograms": "histograms", "images": "images", "texts": "text"}
for kind, plugin in plugins.items():
    shown = server.PluginTagToContent(plugin) if found[kind] else {}
    assert set(shown) == set(found[kind]), (kind, set(shown) ^ set(found[kind]))

# One tag a line.
kinds = []
for kind, tags in sorted(found.items()):
    lines = ",\n".join(f"  {json.dumps(tag)}: {json.dumps(events)}" for tag, events in sorted(tags.items()))
    kinds.append(f' "{kind}": {{\n{lines}\n }}')
print("{\n" + ",\n".join(kinds) + "\n}")
