#!/usr/bin/env bash
# The transport `mpi` under every MPI of this machine, Open MPI and MPICH: built for each, its messages checked whole and
# in pieces, and the wrong pair of launcher and library noticed by every rank.
# usage: tests/mpi.sh [SCONCE]    default: target/release/sconce, built here
set -euo pipefail
cd "$(dirname "$0")/.."
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# In containers, one process may not read another's memory.
export OMPI_MCA_btl_vader_single_copy_mechanism=none
export CARGO_TARGET_DIR=$PWD/target/mpi
sconce=${1:-target/release/sconce}
if [ $# -eq 0 ]; then
  CARGO_TARGET_DIR=target cargo build --quiet --release --locked --workspace
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Builds the plugin for an MPI and puts it where runs with this MPI look: target/mpi/plugins/MPI.
build() {
  MPICC=mpicc.$1 cargo build --quiet --locked --manifest-path plugins/mpi/Cargo.toml
  mkdir -p "target/mpi/plugins/$1"
  cp target/mpi/debug/libsconce_mpi.so "target/mpi/plugins/$1/"
}

# Starts a command with this MPI's launcher.
launch() {
  local mpi=$1 ranks=$2
  shift 2
  case $mpi in
  openmpi) mpirun.openmpi --oversubscribe --bind-to none -n "$ranks" "$@" ;;
  mpich) mpirun.mpich -n "$ranks" "$@" ;;
  esac
}

check() {
  launch "$1" "$2" timeout 120 "$sconce" team --plugins "target/mpi/plugins/$1" --json >"$scratch/said"
  grep -q "\"ranks\": $2" "$scratch/said" || { cat "$scratch/said" >&2; exit 1; }
  echo "$1, $2 ranks${3:-}: $(tr -d ' \n' <"$scratch/said")"
}

# A library of another MPI: each process believes that it is alone.
wrong_pair() {
  local code=0 begin=$SECONDS
  launch "$1" 2 timeout 60 "$sconce" team --plugins "target/mpi/plugins/$2" >"$scratch/said" 2>&1 || code=$?
  local said='mpirun started 2 processes, but the MPI that libsconce_mpi.so was built for sees 1: build it for this MPI'
  if [ "$code" -eq 0 ] || ! grep -q "$said" "$scratch/said" || [ $((SECONDS - begin)) -gt 5 ]; then
    cat "$scratch/said" >&2
    echo "mpirun of $1, library for $2: code $code after $((SECONDS - begin)) s" >&2
    exit 1
  fi
  # Without starting the MPI.
  launch "$1" 1 "$sconce" env --plugins "target/mpi/plugins/$2" >"$scratch/said" 2>&1
  grep -q "libsconce_mpi.so. is of another MPI than the mpirun" "$scratch/said" || { cat "$scratch/said" >&2; exit 1; }
  echo "mpirun of $1, library for $2: refused with code $code"
}

found=()
for mpi in openmpi mpich; do
  if command -v "mpicc.$mpi" >/dev/null && command -v "mpirun.$mpi" >/dev/null; then
    found+=("$mpi")
  else
    echo "skipped: $mpi, which is not installed"
    [ -z "${SCONCE_NO_SKIPS:-}" ] || exit 1
  fi
done

(cd plugins/mpi && cargo fmt --check)
for mpi in "${found[@]}"; do
  SCONCE_MPI_PIECE=1000 build "$mpi"
  check "$mpi" 3 ', messages in pieces'
  build "$mpi"
  check "$mpi" 1
  check "$mpi" 2
  check "$mpi" 3
done
if [ "${#found[@]}" -gt 0 ]; then
  # Whole runs: in one process, by sockets, and by each MPI.
  plugins=()
  for mpi in "${found[@]}"; do
    plugins+=(--mpi "$mpi=target/mpi/plugins/$mpi")
  done
  python3 tests/ranks.py "$sconce" "$(dirname "$sconce")" "${plugins[@]}"
  MPICC=mpicc.${found[0]} cargo clippy --quiet --locked --manifest-path plugins/mpi/Cargo.toml --all-targets -- -D warnings
  MPICC=mpicc.${found[0]} cargo test --quiet --locked --manifest-path plugins/mpi/Cargo.toml
fi
if [ "${#found[@]}" -eq 2 ]; then
  wrong_pair openmpi mpich
  wrong_pair mpich openmpi
fi
