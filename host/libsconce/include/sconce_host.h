/* sconce_host.h: Sconce's hooks in a training loop of your own, from C or any language that can call it.
 *
 * Version 1. Functions and the fields of structures are only added: each structure that you fill in begins with its size, by which a
 * newer library knows what an older program has set. Link with -lsconce -Wl,--allow-shlib-undefined (the library serves Python too, whose
 * functions a program in C has not), or open libsconce.so.
 *
 * A loop begins with sconce_host_start and ends with sconce_host_finish, or sconce_host_fail. In between it says where it is:
 *
 *     sconce_host_begin_epoch(host, batches);
 *     for each batch:
 *         sconce_host_show(host, &inputs);                  tensors that hooks may see, until the batch ends
 *         skipped = sconce_host_begin_batch(host, samples, -1);
 *         if (!skipped) {
 *             sconce_host_after_forward(host);
 *             sconce_host_after_loss(host, loss, &factor);  the loss is to be multiplied by the factor
 *             sconce_host_after_backward(host, gradients, count);
 *             skipped = sconce_host_before_update(host, gradients, count);
 *             if (!skipped) { step the optimizer; sconce_host_after_update(host); }
 *         }
 *         sconce_host_end_batch(host);
 *     sconce_host_end_epoch(host, -1);
 *
 * A call that is missing or out of order is an error whose message names it. All calls of a host are made on one thread at a time.
 */
#ifndef SCONCE_HOST_H
#define SCONCE_HOST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SCONCE_HOST_VERSION 1

/* What a function returns: 0 or more is success, with the meaning that the function names; -1 an error, whose text
 * sconce_host_message gives. */
typedef int32_t sconce_host_result;

/* The hooks of a loop. */
typedef struct sconce_host sconce_host;

/* A tensor in the program's memory, which must stay there while it is shown. Types are DLPack's: code 0 signed, 1 unsigned, 2 float,
 * 4 bfloat, and the bits of an element. */
typedef struct sconce_host_tensor {
  size_t size;             /* sizeof(sconce_host_tensor) */
  const char *name;        /* UTF-8, such as "fc1.weight"; of a batch's tensors "inputs", "targets", "outputs" or another */
  void *data;              /* the first element; hooks may write to parameters, gradients and the batch */
  const int64_t *shape;
  const int64_t *strides;  /* in elements; NULL: the last dimension's elements lie side by side, and so on */
  uint32_t dimensions;
  uint8_t type_code;
  uint8_t type_bits;
  uint8_t is_buffer;       /* a parameter that is not learned, such as a running mean */
} sconce_host_tensor;

/* A tensor of DLPack's (dlpack.h): of a DLManagedTensor, its `dl_tensor`. */
struct DLTensor;

/* What the loop does when hooks ask for it. A function that is NULL refuses; so does one that returns anything but 0, and writes
 * why to `reason`, at most `room` bytes with the closing 0. */
typedef struct sconce_host_loop {
  size_t size;
  void *user;
  /* Saves a checkpoint with this tag, and these states of hooks in it. */
  int32_t (*save)(void *user, const char *tag, const uint8_t *states, size_t length, char *reason, size_t room);
  /* Loads the parameters of a checkpoint, or of one of its published sets (NULL: none). */
  int32_t (*load_parameters)(void *user, const char *tag, const char *set, char *reason, size_t room);
  /* Deletes a checkpoint. */
  int32_t (*delete_checkpoint)(void *user, const char *tag, char *reason, size_t room);
  /* Validates after the batch in progress. */
  int32_t (*validate)(void *user, char *reason, size_t room);
  /* Takes a message of the host (source "sconce") or of a hook: level 1 is a warning, 2 information, 3 detail. NULL: standard error. */
  void (*log)(void *user, int32_t level, const char *source, const char *message);
} sconce_host_loop;

/* What hooks are created from. */
typedef struct sconce_host_options {
  size_t size;
  const char *hooks;       /* JSON: {"hooks": ["csv", {"hook": "ema", "config": {"decay": 0.99}}], "plugins": ["…"]} */
  const char *path;        /* the file that the JSON stands for: relative paths start in its directory, messages name it */
  const char *description; /* JSON: {"plan": {"epochs": 3, "batches": 100, "groups": [{"name": "default", "learning_rate": 0.1}]},
                              "absent": ["after_forward"], "shows": ["parameters", "gradients"], "follows": ["stop"]}; NULL: all */
  const char *directory;   /* where hooks write files; NULL: as the JSON says */
  const sconce_host_tensor *parameters;
  size_t parameter_count;
  const sconce_host_loop *loop; /* copied; NULL: refuses everything */
  const uint8_t *states;   /* of sconce_host_states, to go on from; NULL: from the beginning */
  size_t states_length;
} sconce_host_options;

/* The library's version of this interface. */
uint32_t sconce_host_version(void);

/* The text of the last error on this thread; valid until the next call on it. */
const char *sconce_host_message(void);

/* Finds, checks and creates the hooks; NULL on failure. Hooks that may ask for what the loop can't do are refused here, by name. */
sconce_host *sconce_host_start(const sconce_host_options *options);

/* Describes a tensor of DLPack's as a `tensor` with this name, whose `size` is set: for `parameters`, sconce_host_show, or its `data` for a
 * gradient. Nothing is copied: name, shape, strides and elements stay the program's, until the tensor is shown no longer. An error for
 * tensors that are not in the computer's memory. */
sconce_host_result sconce_host_tensor_of_dlpack(sconce_host_tensor *tensor, const char *name, const struct DLTensor *from);

/* Whether a hook is called at a mount point ("after_loss") in the phase of now: 1 or 0. Where none is, nothing need be shown. */
sconce_host_result sconce_host_listens(sconce_host *host, const char *point);

/* A training epoch of this many batches; 0: not known. */
sconce_host_result sconce_host_begin_epoch(sconce_host *host, uint64_t batches);
/* A validation ("val"), test ("test") or prediction ("predict"). */
sconce_host_result sconce_host_begin_evaluation(sconce_host *host, const char *phase, uint64_t batches);
/* Shows a tensor of the batch until it ends. */
sconce_host_result sconce_host_show(sconce_host *host, const sconce_host_tensor *tensor);
/* A batch begins; updates: 1 an update follows it, 0 none, -1 as the plan says. Returns 1 if hooks skip it: end_batch comes next. */
sconce_host_result sconce_host_begin_batch(sconce_host *host, uint64_t samples, int32_t updates);
sconce_host_result sconce_host_after_forward(sconce_host *host);
/* The loss, a mean over the batch's samples; the loss for the backward pass is to be multiplied by *factor. */
sconce_host_result sconce_host_after_loss(sconce_host *host, double loss, double *factor);
/* Gradients at the parameters' indices, each laid out as its parameter; NULL for none. */
sconce_host_result sconce_host_after_backward(sconce_host *host, void *const *gradients, size_t count);
/* The update's gradients, in which hooks may change elements. Returns 1 if hooks skip the update. */
sconce_host_result sconce_host_before_update(sconce_host *host, void *const *gradients, size_t count);
sconce_host_result sconce_host_after_update(sconce_host *host);
/* The batch is over. Returns 0 to go on, 1 to end after the epoch, 2 to end now. */
sconce_host_result sconce_host_end_batch(sconce_host *host);
/* The epoch is over; is_complete: 1 or 0, -1 as many batches as announced. */
sconce_host_result sconce_host_end_epoch(sconce_host *host, int32_t is_complete);
sconce_host_result sconce_host_end_evaluation(sconce_host *host);
/* The epoch and its validation are over. Returns as end_batch. */
sconce_host_result sconce_host_end_cycle(sconce_host *host);

/* The training is over; a test may follow. */
sconce_host_result sconce_host_end_training(sconce_host *host);

/* Sets a metric of the pass in progress: its value over the batches until now. */
sconce_host_result sconce_host_metric(sconce_host *host, const char *name, double value);
/* The learning rate of a group (NULL: the default group), which hooks may have set; negative if there is no such group. */
double sconce_host_learning_rate(sconce_host *host, const char *group);
/* Whether hooks have frozen a parameter: 1 or 0. */
sconce_host_result sconce_host_is_frozen(sconce_host *host, const char *parameter);

/* The hooks' states for a checkpoint of the program's own; *states is valid until the next call with this host. */
sconce_host_result sconce_host_states(sconce_host *host, const uint8_t **states, size_t *length);
/* The checkpoint with the states is on disk (error NULL), or is not. */
sconce_host_result sconce_host_saved(sconce_host *host, const char *path, const char *error);
/* Goes back to states, with the parameters that the program has loaded itself. */
sconce_host_result sconce_host_restore(sconce_host *host, const uint8_t *states, size_t length);

/* The run ends; the host is gone, whatever this returns. */
sconce_host_result sconce_host_finish(sconce_host *host);
/* The loop has failed; the host is gone, whatever this returns. */
sconce_host_result sconce_host_fail(sconce_host *host, const char *message);

#ifdef __cplusplus
}
#endif
#endif
