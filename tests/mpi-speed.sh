#!/usr/bin/env bash
# How long a sum takes through the transport `mpi`, beside MPI_Allreduce in the same run, with every MPI of this machine.
# usage: tests/mpi-speed.sh [RANKS]    default: 2. On a machine that does nothing else.
set -euo pipefail
cd "$(dirname "$0")/.."
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mkdir -p target/mpi
for mpi in openmpi mpich; do
  command -v "mpicc.$mpi" >/dev/null || continue
  program=target/mpi/sum-$mpi
  "mpicc.$mpi" -O3 -Wno-stringop-overflow -std=c99 -D_POSIX_C_SOURCE=200809L -Iplugins/mpi/src tests/c/mpi_sum.c plugins/mpi/src/shim.c -o "$program"
  options=()
  [ "$mpi" = mpich ] || options=(--oversubscribe --bind-to none)
  echo "$mpi, ${1:-2} ranks"
  "mpirun.$mpi" "${options[@]}" -n "${1:-2}" "$program"
done
