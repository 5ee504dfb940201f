/* What the transport needs of an MPI. Its handles have a different type in every implementation, and many of its names
 * are macros: C is the only language that all of them are for.
 *
 * Every function returns MPI's error code, 0 for success. Lengths and offsets are in bytes and may be larger than an
 * int: messages are sent in pieces. */
#ifndef SCONCE_MPI_SHIM_H
#define SCONCE_MPI_SHIM_H

#include <stdint.h>

/* Starts MPI, unless something else in this process has, and makes a communicator of its own. `owns` is set to whether
 * it started MPI, `serialized` to whether MPI may be called by any thread, one at a time. */
int sconce_mpi_open(int *rank, int *size, int *owns, int *serialized);

/* Ends MPI; all ranks must. */
int sconce_mpi_close(int owns);

/* Writes the name and version of the MPI, at most `capacity` bytes, and sets `length`. */
int sconce_mpi_library(char *text, int capacity, int *length);

/* Writes every rank's machine, each in `capacity` bytes, ended by zero bytes. */
int sconce_mpi_hosts(char *names, int capacity);

/* Writes the description of an error code, and sets `length`. */
int sconce_mpi_describe(int code, char *text, int capacity, int *length);

int sconce_mpi_broadcast(uint8_t *data, uint64_t length, int root);
int sconce_mpi_gather(const uint8_t *own, uint64_t length, uint8_t *all);
int sconce_mpi_exchange(const uint8_t *send, const uint64_t *send_at, uint8_t *receive, const uint64_t *receive_at);
int sconce_mpi_collect(uint8_t *data, const uint64_t *at);

/* Ends all processes of the launcher. */
void sconce_mpi_abort(int code);

#endif
