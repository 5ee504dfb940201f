/* How long the transport's way to sum takes beside MPI_Allreduce: exchange, addition in the order of ranks, collect. Both
 * are measured in turn, in one run; the best of each counts. Links src/shim.c of plugins/mpi. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim.h"

enum { ROUNDS = 400 };

static int rank, size;

static void add(float *to, const float *a, const float *b, uint64_t count) {
  for (uint64_t i = 0; i < count; i++) to[i] = a[i] + b[i];
}

/* Sums `count` floats over all ranks, in their order. */
static void sum(float *data, uint64_t count, float *received) {
  uint64_t at[257], received_at[257];
  for (int part = 0; part <= size; part++) at[part] = count * (uint64_t)part / (uint64_t)size * sizeof(float);
  uint64_t length = at[rank + 1] - at[rank], own = length / sizeof(float);
  float *part = data + at[rank] / sizeof(float);
  for (int other = 0; other <= size; other++) received_at[other] = length * (uint64_t)other;
  sconce_mpi_exchange((uint8_t *)data, at, (uint8_t *)received, received_at);
  float *so_far = received;
  for (int other = 1; other < size; other++) {
    float *to = other + 1 < size ? received : part;
    add(to, so_far, received + own * (uint64_t)other, own);
  }
  sconce_mpi_collect((uint8_t *)data, at);
}

static double best(double best_so_far, double begin) {
  double time = MPI_Wtime() - begin;
  return time < best_so_far ? time : best_so_far;
}

int main(void) {
  int owns, serialized;
  if (sconce_mpi_open(&rank, &size, &owns, &serialized) != 0 || size > 256) return 1;
  uint64_t counts[] = {1024, 65536, 262144, 1048576};
  for (int which = 0; which < 4; which++) {
    uint64_t count = counts[which];
    float *theirs = malloc(count * sizeof *theirs), *ours = malloc(count * sizeof *ours);
    float *received = malloc((count / (uint64_t)size + 1) * (uint64_t)size * sizeof *received);
    for (uint64_t i = 0; i < count; i++) theirs[i] = ours[i] = 0.0f;
    double all_reduce = 1e9, transport = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
      MPI_Barrier(MPI_COMM_WORLD);
      double begin = MPI_Wtime();
      MPI_Allreduce(MPI_IN_PLACE, theirs, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      all_reduce = best(all_reduce, begin);
      MPI_Barrier(MPI_COMM_WORLD);
      begin = MPI_Wtime();
      sum(ours, count, received);
      transport = best(transport, begin);
    }
    if (rank == 0)
      printf("%8llu floats: MPI_Allreduce %9.1f µs, ours %9.1f µs, ratio %.2f\n", (unsigned long long)count,
             all_reduce * 1e6, transport * 1e6, transport / all_reduce);
    free(theirs), free(ours), free(received);
  }
  uint8_t own[64] = {0}, all[64 * 256];
  double vote = 1e9;
  for (int round = 0; round < 10 * ROUNDS; round++) {
    double begin = MPI_Wtime();
    sconce_mpi_gather(own, sizeof own, all);
    vote = best(vote, begin);
  }
  if (rank == 0) printf("64-byte gather: %.1f µs\n", vote * 1e6);
  return sconce_mpi_close(owns);
}
