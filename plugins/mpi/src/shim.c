#define _POSIX_C_SOURCE 200809L

#include "shim.h"

#include <limits.h>
#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Most bytes of one message: counts are ints. Tests make it small. */
#ifndef SCONCE_MPI_PIECE
#define SCONCE_MPI_PIECE ((uint64_t)1 << 30)
#endif

#define TAG 1

/* Returns from the function if a call of MPI fails. */
#define TRY(call)                         \
  do {                                    \
    int code_ = (call);                   \
    if (code_ != MPI_SUCCESS) return code_; \
  } while (0)

/* The communicator of this transport: no message of another user of MPI is taken for one of its own. */
static MPI_Comm team = MPI_COMM_NULL;
static int team_rank = 0;
static int team_size = 1;

/* Whether more processes wait on this machine than it has processors for. MPIs wait actively; where another rank needs
 * the processor to send what is waited for, that takes a thousand times as long. */
static int is_crowded = 0;

static int count_neighbours(int *count) {
  MPI_Comm machine;
  TRY(MPI_Comm_split_type(team, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine));
  TRY(MPI_Comm_size(machine, count));
  return MPI_Comm_free(&machine);
}

/* Waits for a call that has begun, if it could begin. */
static int finish(int code, MPI_Request *request) {
  int is_done = 0;
  if (code != MPI_SUCCESS) return code;
  for (;;) {
    TRY(MPI_Test(request, &is_done, MPI_STATUS_IGNORE));
    if (is_done) return MPI_SUCCESS;
    sched_yield();
  }
}

/* The two forms of a call: one that waits, and one that others can work beside. */
#define CALL(name, request, ...) \
  (is_crowded ? finish(MPI_I##name(__VA_ARGS__, request), request) : WAITING_##name(__VA_ARGS__))
#define WAITING_bcast MPI_Bcast
#define WAITING_allgather MPI_Allgather
#define WAITING_allgatherv MPI_Allgatherv

int sconce_mpi_open(int *rank, int *size, int *owns, int *serialized) {
  int is_initialized = 0, neighbours = 1, level = MPI_THREAD_SINGLE;
  TRY(MPI_Initialized(&is_initialized));
  *owns = !is_initialized;
  if (is_initialized) {
    TRY(MPI_Query_thread(&level));
  } else {
    TRY(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level));
  }
  *serialized = level >= MPI_THREAD_SERIALIZED;
  TRY(MPI_Comm_dup(MPI_COMM_WORLD, &team));
  TRY(MPI_Comm_set_errhandler(team, MPI_ERRORS_RETURN));
  TRY(MPI_Comm_rank(team, &team_rank));
  TRY(MPI_Comm_size(team, &team_size));
  TRY(count_neighbours(&neighbours));
  is_crowded = neighbours > sysconf(_SC_NPROCESSORS_ONLN);
  /* The two forms of a call don't go together. */
  TRY(MPI_Allreduce(MPI_IN_PLACE, &is_crowded, 1, MPI_INT, MPI_MAX, team));
  *rank = team_rank;
  *size = team_size;
  return MPI_SUCCESS;
}

int sconce_mpi_close(int owns) {
  if (team != MPI_COMM_NULL) TRY(MPI_Comm_free(&team));
  return owns ? MPI_Finalize() : MPI_SUCCESS;
}

/* Copies at most `capacity` bytes. */
static void copy(const char *from, int length, char *text, int capacity, int *copied) {
  *copied = length < capacity ? length : capacity;
  memcpy(text, from, (size_t)*copied);
}

int sconce_mpi_library(char *text, int capacity, int *length) {
  char full[MPI_MAX_LIBRARY_VERSION_STRING];
  int full_length = 0;
  TRY(MPI_Get_library_version(full, &full_length));
  copy(full, full_length, text, capacity, length);
  return MPI_SUCCESS;
}

int sconce_mpi_describe(int code, char *text, int capacity, int *length) {
  char full[MPI_MAX_ERROR_STRING];
  int full_length = 0;
  TRY(MPI_Error_string(code, full, &full_length));
  copy(full, full_length, text, capacity, length);
  return MPI_SUCCESS;
}

int sconce_mpi_hosts(char *names, int capacity) {
  char own[MPI_MAX_PROCESSOR_NAME];
  int length = 0, copied = 0;
  char *slot = names + (size_t)team_rank * (size_t)capacity;
  TRY(MPI_Get_processor_name(own, &length));
  memset(slot, 0, (size_t)capacity);
  copy(own, length, slot, capacity - 1, &copied);
  return MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, names, capacity, MPI_CHAR, team);
}

int sconce_mpi_broadcast(uint8_t *data, uint64_t length, int root) {
  MPI_Request request;
  while (length > 0) {
    uint64_t piece = length < SCONCE_MPI_PIECE ? length : SCONCE_MPI_PIECE;
    TRY(CALL(bcast, &request, data, (int)piece, MPI_BYTE, root, team));
    data += piece;
    length -= piece;
  }
  return MPI_SUCCESS;
}

static uint64_t pieces(uint64_t length) { return (length + SCONCE_MPI_PIECE - 1) / SCONCE_MPI_PIECE; }

static uint64_t piece_at(uint64_t from, uint64_t length) {
  uint64_t rest = length - from;
  return rest < SCONCE_MPI_PIECE ? rest : SCONCE_MPI_PIECE;
}

/* Requests of messages under way. */
typedef struct requests {
  MPI_Request *list;
  int count;
} requests;

static int begin_receive(requests *all, uint8_t *data, uint64_t length, int from) {
  for (uint64_t at = 0; at < length; at += SCONCE_MPI_PIECE)
    TRY(MPI_Irecv(data + at, (int)piece_at(at, length), MPI_BYTE, from, TAG, team, &all->list[all->count++]));
  return MPI_SUCCESS;
}

static int begin_send(requests *all, const uint8_t *data, uint64_t length, int to) {
  for (uint64_t at = 0; at < length; at += SCONCE_MPI_PIECE)
    TRY(MPI_Isend(data + at, (int)piece_at(at, length), MPI_BYTE, to, TAG, team, &all->list[all->count++]));
  return MPI_SUCCESS;
}

static int finish_all(requests *all) {
  int is_done = 0;
  if (!is_crowded) return MPI_Waitall(all->count, all->list, MPI_STATUSES_IGNORE);
  for (;;) {
    TRY(MPI_Testall(all->count, all->list, &is_done, MPI_STATUSES_IGNORE));
    if (is_done) return MPI_SUCCESS;
    sched_yield();
  }
}

/* Messages between one pair of ranks arrive in the order in which they were sent: pieces need no numbers. */
static int begin_all(requests *all, const uint8_t *send, const uint64_t *send_at, uint8_t *receive,
                     const uint64_t *receive_at) {
  for (int step = 1; step < team_size; step++) {
    int from = (team_rank - step + team_size) % team_size;
    TRY(begin_receive(all, receive + receive_at[from], receive_at[from + 1] - receive_at[from], from));
  }
  for (int step = 1; step < team_size; step++) {
    /* Each rank begins with another one. */
    int to = (team_rank + step) % team_size;
    TRY(begin_send(all, send + send_at[to], send_at[to + 1] - send_at[to], to));
  }
  return MPI_SUCCESS;
}

int sconce_mpi_exchange(const uint8_t *send, const uint64_t *send_at, uint8_t *receive, const uint64_t *receive_at) {
  MPI_Request few[64];
  requests all = {few, 0};
  uint64_t count = 0;
  uint64_t own = send_at[team_rank + 1] - send_at[team_rank];
  int code;
  if (own != receive_at[team_rank + 1] - receive_at[team_rank]) return MPI_ERR_COUNT;
  for (int rank = 0; rank < team_size; rank++) {
    count += pieces(send_at[rank + 1] - send_at[rank]);
    count += pieces(receive_at[rank + 1] - receive_at[rank]);
  }
  if (count > INT_MAX) return MPI_ERR_COUNT;
  if (count > sizeof few / sizeof *few) {
    all.list = malloc((size_t)count * sizeof *all.list);
    if (all.list == NULL) return MPI_ERR_NO_MEM;
  }
  code = begin_all(&all, send, send_at, receive, receive_at);
  /* While the others' messages are under way. */
  if (code == MPI_SUCCESS && own > 0) memcpy(receive + receive_at[team_rank], send + send_at[team_rank], (size_t)own);
  if (code == MPI_SUCCESS) code = finish_all(&all);
  if (all.list != few) free(all.list);
  return code;
}

/* Passes parts around in a ring: in each step every rank sends what it has just received. */
static int collect_in_a_ring(uint8_t *data, const uint64_t *at) {
  MPI_Request one[2];
  int right = (team_rank + 1) % team_size, left = (team_rank - 1 + team_size) % team_size;
  for (int step = 0; step + 1 < team_size; step++) {
    int sent = (team_rank - step + team_size) % team_size;
    int received = (sent - 1 + team_size) % team_size;
    uint64_t send_length = at[sent + 1] - at[sent], receive_length = at[received + 1] - at[received];
    requests both = {one, 0};
    for (uint64_t from = 0; from < send_length || from < receive_length; from += SCONCE_MPI_PIECE) {
      both.count = 0;
      if (from < receive_length)
        TRY(begin_receive(&both, data + at[received] + from, piece_at(from, receive_length), left));
      if (from < send_length) TRY(begin_send(&both, data + at[sent] + from, piece_at(from, send_length), right));
      TRY(finish_all(&both));
    }
  }
  return MPI_SUCCESS;
}

int sconce_mpi_gather(const uint8_t *own, uint64_t length, uint8_t *all) {
  MPI_Request request;
  uint64_t *at;
  int code;
  /* Pointers to no bytes may have the value of MPI_IN_PLACE. */
  if (length == 0) return MPI_SUCCESS;
  if (length <= SCONCE_MPI_PIECE)
    return CALL(allgather, &request, own, (int)length, MPI_BYTE, all, (int)length, MPI_BYTE, team);
  at = malloc(((size_t)team_size + 1) * sizeof *at);
  if (at == NULL) return MPI_ERR_NO_MEM;
  for (int rank = 0; rank <= team_size; rank++) at[rank] = (uint64_t)rank * length;
  memcpy(all + at[team_rank], own, (size_t)length);
  code = collect_in_a_ring(all, at);
  free(at);
  return code;
}

int sconce_mpi_collect(uint8_t *data, const uint64_t *at) {
  int few[64] = {0};
  int *counts = few;
  MPI_Request request;
  int code;
  if (at[team_size] == 0) return MPI_SUCCESS;
  /* `at` is the same on all ranks, and so is this choice. */
  if (at[team_size] > SCONCE_MPI_PIECE) return collect_in_a_ring(data, at);
  if (team_size > 32) {
    counts = malloc(2 * (size_t)team_size * sizeof *counts);
    if (counts == NULL) return MPI_ERR_NO_MEM;
  }
  for (int rank = 0; rank < team_size; rank++) {
    counts[rank] = (int)(at[rank + 1] - at[rank]);
    counts[team_size + rank] = (int)at[rank];
  }
  code = CALL(allgatherv, &request, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, counts, counts + team_size, MPI_BYTE, team);
  if (counts != few) free(counts);
  return code;
}

void sconce_mpi_abort(int code) { MPI_Abort(MPI_COMM_WORLD, code); }
