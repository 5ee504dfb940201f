"""Writes the Parquet files of `host/data`'s tests, by pyarrow: `python3 tests/reference/parquet_files.py`."""

import pathlib

import pyarrow as pa
import pyarrow.parquet as pq

HERE = pathlib.Path(__file__).parent / "parquet"


def write(name, columns, **options):
    pq.write_table(pa.table(columns), HERE / name, **options)


ROWS = range(300)
completions = {
    "prompt": [f"Say number {i}:" for i in ROWS],
    "id": pa.array([[i, i] for i in ROWS]),
    "completion": [f" {i} and {i * i}" for i in ROWS],
}
write("completions.parquet", completions, compression="snappy", row_group_size=100)
write("completions_zstd.parquet", completions, compression="zstd", data_page_version="2.0", data_page_size=500)
write(
    "labels.parquet",
    {"text": ["a b", "", "c"], "label": pa.array([2, 10, 2], pa.int8()), "more": [None, "x", None]},
    compression="none",
    use_dictionary=False,
)
write("gzip.parquet", {"text": ["a"], "label": [1]}, compression="gzip")


def message(role, content):
    return {"role": role, "content": content}


write(
    "messages.parquet",
    {
        "messages": [
            [message("user", "a"), message("assistant", "b"), message("user", "c")],
            [],
            None,
            [message("user", "d"), message("assistant", None)],
        ]
    },
    compression="zstd",
)
