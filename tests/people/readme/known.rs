//! The commands that the pages name, and what is done about each.

/// What a test does about a command of a page.
pub(super) enum Does {
    /// Runs these in its place, or the command itself where there are none; together they print these words.
    Runs(&'static [&'static str], &'static [&'static str]),
    /// Nothing, for a reason.
    NotHere(&'static str),
}

use Does::{NotHere, Runs};

/// A page and its commands, in the page's order; one that comes twice is here once.
pub(super) type Page = (&'static str, &'static [(&'static str, Does)]);

/// Every page whose commands are run.
///
/// They run in a directory that is like a checkout after `cargo build --release`, in which there are also
/// `mine.json`, a manifest whose run was stopped after the first of its epochs, and what it left, and a table.
pub(super) const PAGES: [Page; 6] = [
    (
        "README.md",
        &[
            (
                "pip install sconce_train-0.1.0-cp39-abi3-manylinux_2_28_x86_64.whl",
                NotHere("`.ci/try-wheel` installs the wheel"),
            ),
            (
                "sconce demo",
                Runs(
                    &["sconce demo --epochs 1"],
                    &[
                        "completed: 2 epochs",
                        "the report: sconce-demo/run/report.html",
                    ],
                ),
            ),
            (
                "cargo build --release && target/release/sconce run examples/digits/run.json",
                NotHere("`.ci/run` runs it, by `.ci/readme-command`"),
            ),
            (
                "cargo test --release --workspace",
                NotHere("this is part of it"),
            ),
            (
                "cargo install --locked --path host",
                NotHere("builds the host in its release profile"),
            ),
            (
                "sconce install-plugins --from target/release",
                Runs(&[], &["sconce-plugin-csv", "plugins installed in"]),
            ),
            (
                "sconce new-plugin NAME",
                Runs(
                    &["sconce new-plugin best-epoch"],
                    &["best-epoch has a plugin"],
                ),
            ),
            (
                "sconce check FILE",
                Runs(&["sconce check mine.json"], &["before_run", "csv"]),
            ),
            (
                "sconce run FILE --resume",
                Runs(&["sconce run mine.json --resume"], &["resumes from"]),
            ),
            (
                "sconce run FILE [--set PATH=VALUE …] [--output DIR]",
                Runs(
                    &[
                        "sconce run mine.json --output plain",
                        "sconce run mine.json --set train.batch_size=16 --set name=other --output other",
                    ],
                    &["val"],
                ),
            ),
            (
                r"sconce run FILE --resume [TAG\|PATH]",
                Runs(
                    &[
                        "sconce run mine.json --resume epoch-1",
                        "sconce run mine.json --resume runs/mine/checkpoints/epoch-1",
                    ],
                    &["resumes from"],
                ),
            ),
            (
                "sconce run FILE --restarts N",
                Runs(
                    &["sconce run mine.json --restarts 2 --output restarted"],
                    &["stopped by `stop-after`"],
                ),
            ),
            (
                "sconce run FILE --ui",
                Runs(
                    &["sconce run mine.json --ui --limit-train 2 --output watched"],
                    &["lines instead of the live view", "val"],
                ),
            ),
            (
                "sconce summary FILE",
                Runs(&["sconce summary mine.json"], &["linear", "parameters"]),
            ),
            (
                "sconce eval FILE --checkpoint C [--phase P] [--json]",
                Runs(
                    &[
                        "sconce eval mine.json --checkpoint runs/mine/checkpoints/epoch-1",
                        "sconce eval mine.json --checkpoint runs/mine/weights.safetensors --phase val --json",
                    ],
                    &["accuracy", "{"],
                ),
            ),
            (
                "sconce predict RUN --input DATA [--format csv]",
                Runs(
                    &[
                        "unset SCONCE_SET_DATA; sconce new-run table.json --yes --data table.csv && \
                         sconce run table.json && sconce predict runs/table --input table.csv --format csv",
                        "sconce predict runs/table/model --input - < table.csv",
                    ],
                    &["index,row,class,", "\"class\":"],
                ),
            ),
            (
                "sconce generate RUN --prompt TEXT [--temperature X]",
                NotHere("`tests/it/generate.rs` trains a model of text"),
            ),
            (
                "sconce export RUN --output FILE.onnx",
                Runs(
                    &["sconce export runs/mine --output mine.onnx"],
                    &["mine.onnx"],
                ),
            ),
            (
                "sconce merge RUN --output DIRECTORY",
                NotHere("`tests/it/adapters.rs` trains adapters"),
            ),
            (
                "sconce eval RUN [--set NAME]",
                Runs(
                    &[
                        "sconce eval runs/mine --set parameters",
                        "sconce predict runs/mine --format csv",
                    ],
                    &["accuracy", "index,class,"],
                ),
            ),
            (
                "sconce run FILE --dry-run",
                Runs(&["sconce run mine.json --dry-run"], &["a dry run"]),
            ),
            (
                "--limit-train N",
                Runs(
                    &["sconce run mine.json --limit-train 2 --output limited"],
                    &["val"],
                ),
            ),
            (
                "--overfit N",
                Runs(
                    &["sconce run mine.json --overfit 1 --output overfitted"],
                    &["val"],
                ),
            ),
            (
                "sconce runs [DIR] [--json]",
                Runs(
                    &["sconce runs", "sconce runs runs --json"],
                    &["mine", "[", "val/"],
                ),
            ),
            (
                "sconce compare RUN RUN … [--json]",
                Runs(
                    &[
                        "sconce compare runs/mine other",
                        "sconce compare runs/mine plain other --json",
                    ],
                    &["train.batch_size", "differences"],
                ),
            ),
            (
                "sconce board [DIR] [--export FILE]",
                Runs(
                    &["sconce board runs --export board.html"],
                    &["in board.html"],
                ),
            ),
            (
                "sconce probe RUN [--module NAME] [--json]",
                NotHere("`tests/it/views.rs` measures a model's features"),
            ),
            (
                "sconce sweep FILE",
                NotHere("`tests/it/sweeps.rs` trains many trials"),
            ),
            (
                "sconce plugins [DIR …] [--json]",
                Runs(
                    &["sconce plugins", "sconce plugins target/release --json"],
                    &["early-stopping", "sha256"],
                ),
            ),
            (
                "sconce inspect LIBRARY [--json]",
                Runs(
                    &["sconce inspect LIBRARY", "sconce inspect LIBRARY --json"],
                    &["sconce-plugin-stop-after", "\"hooks\""],
                ),
            ),
            (
                "sconce install-plugins [--from PATH] [--to DIR]",
                Runs(
                    &[
                        "sconce install-plugins",
                        "sconce install-plugins --from LIBRARY --to here",
                    ],
                    &["16 plugins installed in", "1 plugin installed in here"],
                ),
            ),
            (
                "sconce schema [FILE] [--hook NAME]",
                Runs(
                    &["sconce schema", "sconce schema mine.json --hook csv"],
                    &["$defs", "properties"],
                ),
            ),
            (
                "sconce validate LIBRARY",
                Runs(&["sconce validate LIBRARY"], &["passed"]),
            ),
            (
                "sconce new-run [DATA] [FILE]",
                Runs(
                    &[
                        "sconce new-run --yes",
                        "sconce new-run digits.json --yes --task digits",
                    ],
                    &["run.json", "digits.schema.json"],
                ),
            ),
            (
                "sconce launch -n N FILE",
                NotHere("trainings by several processes have tests of their own"),
            ),
            ("sconce team", Runs(&[], &["one process"])),
            (
                "sconce launch -n 4 --check",
                Runs(&[], &["4 ranks on 1 machine", "deliver the right bytes"]),
            ),
            (
                "sconce docs [WORD …]",
                Runs(
                    &["sconce docs --no-open", "sconce docs early-stopping"],
                    &["documentation: ", "early-stopping"],
                ),
            ),
            ("sconce env", Runs(&[], &["plugin API", "plugins in"])),
            (
                "sconce completions SHELL",
                Runs(&["sconce completions fish"], &["complete -c sconce"]),
            ),
            (
                "sconce man DIR",
                Runs(&["sconce man pages && ls pages"], &["sconce-run.1"]),
            ),
            ("sconce validate", NotHere("names the command")),
        ],
    ),
    (
        "docs/first-run.md",
        &[
            (
                "pip install sconce_train-0.1.0-cp39-abi3-manylinux_2_28_x86_64.whl",
                NotHere("`.ci/try-wheel` installs the wheel"),
            ),
            (
                "sconce new-run DATA.csv",
                Runs(
                    &["sconce new-run table.csv first/run.json"],
                    &["target  `", "first/run.json  the manifest"],
                ),
            ),
            (
                "sconce run run.json",
                Runs(
                    &["unset SCONCE_SET_DATA; sconce run first/run.json"],
                    &["val"],
                ),
            ),
            (
                "cargo build --release",
                NotHere("`.ci/run` runs it, by `.ci/readme-command`"),
            ),
            (
                "sconce check examples/digits/run.json",
                Runs(&[], &["before_run", "stop-after"]),
            ),
            (
                "sconce summary examples/digits/run.json",
                Runs(&[], &["linear", "parameters"]),
            ),
            (
                "sconce run examples/digits/run.json --dry-run",
                Runs(&[], &["a dry run"]),
            ),
            (
                "--overfit 1",
                Runs(
                    &["sconce run examples/digits/run.json --overfit 1 --output overfitted"],
                    &["val"],
                ),
            ),
            (
                "sconce run examples/digits/run.json",
                Runs(
                    &["sconce run examples/digits/run.json && ls examples/digits/runs/digits"],
                    &[
                        "manifest.json",
                        "run.json",
                        "train.csv",
                        "val.csv",
                        "test.csv",
                        "weights.safetensors",
                    ],
                ),
            ),
            (
                "sconce run examples/digits/run.json --set optimizer.learning_rate=0.01 --output runs/faster \
                 --set name=faster",
                Runs(&[], &["val"]),
            ),
            (
                "sconce compare examples/digits/runs/digits runs/faster",
                Runs(&[], &["optimizer.learning_rate"]),
            ),
            (
                "sconce schema examples/digits/run.json > schema.json",
                Runs(
                    &["sconce schema examples/digits/run.json > schema.json && cat schema.json"],
                    &["config of stop-after"],
                ),
            ),
            (
                "sconce run FILE --resume",
                Runs(&["sconce run mine.json --resume"], &["resumes from"]),
            ),
            (
                "sconce predict runs/NAME --input NEW --format csv",
                Runs(
                    &[
                        "unset SCONCE_SET_DATA; sconce new-run table.json --yes --data table.csv && \
                         sconce run table.json && sconce predict runs/table --input table.csv --format csv",
                    ],
                    &["index,row,class,"],
                ),
            ),
            (
                "sconce eval runs/NAME",
                Runs(&["sconce eval runs/mine"], &["accuracy"]),
            ),
        ],
    ),
    (
        "docs/first-hook.md",
        &[
            (
                "sconce new-plugin best-epoch",
                Runs(&[], &["the hook `best-epoch`", "src/lib.rs"]),
            ),
            ("cd best-epoch", Runs(&[], &[])),
            ("cargo test", NotHere("`scaffolds` runs it")),
            (
                "cargo build --release",
                Runs(&["cargo build && ls target/release"], &["best_epoch"]),
            ),
            (
                "sconce check run.json",
                Runs(&[], &["after_cycle", "best-epoch"]),
            ),
            ("sconce run run.json", Runs(&[], &["val"])),
            (
                "sconce validate target/release/libbest_epoch.so",
                Runs(&[], &["passed"]),
            ),
        ],
    ),
    ("docs/cookbook.md", &[]),
    (
        "docs/installing.md",
        &[
            (
                "tar -xzf sconce-0.1.0-x86_64-unknown-linux-gnu.tar.gz",
                NotHere("`.ci/try-archive` unpacks one"),
            ),
            (
                "sconce-0.1.0-x86_64-unknown-linux-gnu/bin/sconce run \
                 sconce-0.1.0-x86_64-unknown-linux-gnu/examples/digits/run.json",
                NotHere("`.ci/try-archive` runs it"),
            ),
            ("python3 -m venv .venv", NotHere("`.ci/try-wheel` does")),
            (
                ".venv/bin/pip install sconce_train-0.1.0-cp39-abi3-manylinux_2_28_x86_64.whl",
                NotHere("`.ci/try-wheel` does"),
            ),
            (
                ".venv/bin/sconce new-run first.json --yes",
                NotHere("`.ci/try-wheel` does"),
            ),
            (
                ".venv/bin/sconce run first.json",
                NotHere("`.ci/try-wheel` does"),
            ),
            (
                "cargo build --release",
                NotHere("`.ci/run` runs it, by `.ci/readme-command`"),
            ),
            (
                "cargo install --locked --path host",
                NotHere("builds the host in its release profile"),
            ),
            (
                "sconce install-plugins --from target/release",
                Runs(&[], &["plugins installed in"]),
            ),
            (
                "sconce new-run first.json --yes",
                Runs(&[], &["first.json  the manifest"]),
            ),
            ("sconce run first.json", Runs(&[], &["val"])),
            (
                "sconce docs",
                Runs(
                    &["sconce docs --no-open"],
                    &["documentation: ", "examples: "],
                ),
            ),
            (
                "sconce docs standard input",
                Runs(&[], &["A trained model on its own: Predictions"]),
            ),
            (
                "sconce plugins",
                Runs(&[], &["early-stopping", "data-home/sconce/plugins"]),
            ),
            ("sconce env", Runs(&[], &["plugins in", "is not there"])),
            (
                "sconce install-plugins --dry-run",
                Runs(&[], &["would be installed in"]),
            ),
            (
                "sconce install-plugins",
                Runs(&[], &["16 plugins installed in"]),
            ),
            (
                "sconce install-plugins --from best-epoch/target/release/libbest_epoch.so",
                Runs(
                    &["sconce install-plugins --from LIBRARY"],
                    &["1 plugin installed in"],
                ),
            ),
            (
                "sconce install-plugins --remove best-epoch",
                Runs(
                    &["sconce install-plugins --remove sconce-plugin-stop-after"],
                    &["removed"],
                ),
            ),
            ("sconce inspect", NotHere("names the command")),
            (
                "sconce completions bash > sconce.bash",
                Runs(
                    &[
                        "sconce completions bash > sconce.bash && bash -n sconce.bash && cat sconce.bash",
                    ],
                    &["complete -F _sconce"],
                ),
            ),
            (
                "sconce man man1",
                Runs(&["sconce man man1 && ls man1"], &["sconce-run.1"]),
            ),
        ],
    ),
    (
        "docs/own-text.md",
        &[
            (
                "sconce tokenize input.txt --train 1024 --output books-tokens",
                Runs(
                    &[
                        "seq -f 'Line %g of a play, spoken to all.' 2000 > input.txt",
                        "sconce tokenize input.txt --train 300 --output books-tokens",
                    ],
                    &["books-tokens"],
                ),
            ),
            (
                "sconce check text.json",
                Runs(
                    &[
                        // The page's own manifest.
                        "sed -n '/^```json/,/^```$/p' docs/own-text.md | sed '/^```/d' > text.json",
                        "unset SCONCE_SET_DATA; sconce check text.json",
                    ],
                    &["tokens of 300 kinds"],
                ),
            ),
            (
                "sconce run text.json",
                Runs(
                    &["unset SCONCE_SET_DATA; sconce run text.json --limit-train 2"],
                    &["bits_per_byte"],
                ),
            ),
            (
                "sconce generate runs/text --prompt \"ROMEO:\" --tokens 90 --temperature 0.8",
                Runs(
                    &[
                        "unset SCONCE_SET_DATA; sconce generate runs/text --prompt ROMEO: --tokens 9",
                    ],
                    &["ROMEO:"],
                ),
            ),
        ],
    ),
];
