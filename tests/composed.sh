#!/usr/bin/env bash
# The tests of operations and networks, and the comparison with PyTorch, with every operation composed of candle's own, as on devices
# that our kernels don't compute on.
# usage: tests/composed.sh    what `cargo test --release --workspace` has built is not built again
#
# Left out is what is about kernels: what they record, and the bits of synchronised batch norms.
set -euo pipefail
cd "$(dirname "$0")/.."
programs=$(cargo test --release --locked --workspace --no-run --message-format=json --quiet | python3 -c '
import json, sys
for line in sys.stdin:
    built = json.loads(line)
    if built["reason"] == "compiler-artifact" and built["profile"]["test"] and built["target"]["name"] in ("sconce_ops", "sconce_nn", "it"):
        print(built["executable"])')
[ "$(wc -w <<<"$programs")" -eq 3 ] || { echo "tests to run: $programs" >&2; exit 1; }
for program in $programs; do
  case $program in
    */it-*) (cd tests && SCONCE_OPS=composed "$program" --quiet pytorch::a_hundred_steps) ;;
    *) SCONCE_OPS=composed "$program" --quiet --skip tape:: --skip a_rank_alone_has_the_bits ;;
  esac
done
