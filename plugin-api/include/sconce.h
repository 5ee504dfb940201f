/* Sconce hooks in C and C++.
 *
 * A plugin is a shared library with a metadata section (SCONCE_PLUGIN) and one function, sconce_c_plugin_v1. The host
 * reads the section without running any code of the library, creates hooks by `create`, and calls them at mount points.
 * docs/hooks-in-c.md shows a whole hook; `sconce new-plugin NAME --language c` writes one.
 *
 * Every type here is one of the frozen binary interface (plugin-api/src/abi and ext), field by field; the project's tests
 * compare them. The interface grows by extensions alone: tables that the host gives by name, or null if it lacks them.
 *
 * Rules for all functions of a plugin:
 * - Texts (sconce_text) are UTF-8 with a length, and without a null character at the end.
 * - What is given to a function is borrowed for that call, unless said otherwise.
 * - They return SCONCE_OK or another status. Before another one, say what failed by sconce_fail(); the user reads it.
 * - No exception and no longjmp may leave them.
 * - They are called by one thread at a time.
 *
 * C99 or later, C++11 or later. License: MIT OR Apache-2.0. */
#ifndef SCONCE_H
#define SCONCE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SCONCE_ABI_EPOCH 1u
/* Version of this header, and of the interface that it describes. */
#define SCONCE_API_VERSION "1.0.0"

/* Statuses. The set is open: treat unknown numbers as SCONCE_ERROR. */
#define SCONCE_OK 0u             /* success */
#define SCONCE_ERROR 1u          /* failure; the message says why */
#define SCONCE_PANIC 2u          /* a panic or an exception was caught */
#define SCONCE_CONFIG 3u         /* the hook's configuration was refused */
#define SCONCE_NO_SUCH_KIND 4u   /* the plugin has no hook kind of that name */
#define SCONCE_NOT_FOUND 5u      /* there is no entry of that name */
#define SCONCE_NOT_LEGAL_HERE 6u /* the request is not legal at this mount point */
#define SCONCE_INVALID 7u        /* an argument is out of range */
#define SCONCE_UNSUPPORTED 8u    /* the other side does not know this number or name */

/* Phases. */
#define SCONCE_TRAIN 0u
#define SCONCE_VAL 1u
#define SCONCE_TEST 2u
#define SCONCE_PREDICT 3u

/* Mount points: their numbers, in sconce_view.point. */
#define SCONCE_BEFORE_RUN 0
#define SCONCE_AFTER_RUN 1
#define SCONCE_BEFORE_LOOP 2
#define SCONCE_AFTER_LOOP 3
#define SCONCE_BEFORE_EPOCH 4
#define SCONCE_AFTER_EPOCH 5
#define SCONCE_AFTER_CYCLE 6
#define SCONCE_BEFORE_ITER 7
#define SCONCE_AFTER_ITER 8
#define SCONCE_AFTER_FORWARD 9
#define SCONCE_AFTER_LOSS 10
#define SCONCE_AFTER_BACKWARD 11
#define SCONCE_BEFORE_UPDATE 12
#define SCONCE_AFTER_UPDATE 13
#define SCONCE_MODULE_FORWARD 14
#define SCONCE_MODULE_BACKWARD 15
#define SCONCE_BEFORE_SAVE_CHECKPOINT 16
#define SCONCE_AFTER_SAVE_CHECKPOINT 17
#define SCONCE_AFTER_LOAD_CHECKPOINT 18
#define SCONCE_EPOCH_PROFILE 19
#define SCONCE_ON_EXCEPTION 20

/* UTF-8 text. A null pointer with length 0 is the empty text. */
typedef struct sconce_text {
  const uint8_t *pointer;
  size_t length; /* in bytes */
} sconce_text;

/* The host's own types, of which a plugin only passes pointers on. */
typedef struct sconce_error sconce_error;   /* where a failure is described */
typedef struct sconce_bytes sconce_bytes;   /* where a hook's state is written */
typedef struct sconce_string sconce_string; /* where a description is written */

/* Flags of sconce_view. */
#define SCONCE_VIEW_HAS_LOSS 1u /* `loss` has a value */
#define SCONCE_VIEW_INITIAL 2u  /* this validation comes before the first training epoch */
#define SCONCE_VIEW_UPDATES 4u  /* the optimizer steps at the end of this batch */
#define SCONCE_VIEW_LOSS_WAITS 8u /* there is a loss: read it by sconce.loss/1. Only for hooks that have queried that */

/* State of the task at a mount point. Counters count what is finished, from 0. */
typedef struct sconce_view {
  const void *context; /* argument of the host's functions */
  const void *payload; /* payload of the mount point (see below), or null */
  sconce_text stream;  /* name of the phase's data set */
  uint64_t epoch;      /* training epochs */
  uint64_t epochs;     /* training epochs that are planned */
  uint64_t iteration;  /* training batches */
  uint64_t update;     /* optimizer steps */
  uint64_t batch;      /* batches of this pass over the phase's data */
  uint64_t batches;    /* batches of the whole pass; 0 outside of one */
  uint64_t samples;    /* training samples; the current batch's are not counted before after_iter */
  uint64_t batch_size; /* samples of the current batch, with accumulation of the micro-batch; 0 outside of one */
  uint64_t ordinal;    /* earlier validations of this epoch */
  double loss;         /* of the current batch, or of the last one; see SCONCE_VIEW_HAS_LOSS */
  double learning_rate;
  uint64_t flags; /* SCONCE_VIEW_…; ignore unknown bits */
  uint32_t point; /* the mount point's number */
  uint32_t phase; /* the phase's number */
} sconce_view;

/* Payload of after_run. */
typedef struct sconce_outcome {
  uint32_t kind;      /* 0 completed, 1 stopped, 2 failed, 3 interrupted by a signal */
  sconce_text reason; /* why it stopped, its error, or the signal's name */
} sconce_outcome;

/* Time spent in one hook, of a sconce_profile. Times are in seconds. */
typedef struct sconce_hook_time {
  sconce_text name; /* of the manifest entry */
  uint64_t calls;
  double seconds; /* of all calls; estimated from a sample if calls are short and many */
  double longest; /* of the calls that were timed */
  double requests; /* spent by the host on its requests since the last epoch_profile, apart from the calls */
} sconce_hook_time;

/* Payload of epoch_profile: wall-clock times of a pass, in seconds. */
typedef struct sconce_profile {
  double total; /* from before_epoch to after_epoch, including both */
  double data;  /* waiting for batches */
  double forward;
  double loss;
  double backward;
  double update;
  const sconce_hook_time *hooks; /* of all hooks, in the manifest's order */
  size_t hook_count;
} sconce_profile;

/* Payload of on_exception. */
typedef struct sconce_failure {
  uint32_t origin;     /* 0 the task, 1 the data, 2 a hook, 3 a signal, 4 the host */
  sconce_text message; /* the complete error message */
  sconce_text hook;    /* the hook that failed, or empty */
} sconce_failure;

/* Payload of module_forward and module_backward. */
typedef struct sconce_module {
  sconce_text name; /* such as fc1 */
  sconce_text kind; /* such as linear */
} sconce_module;

/* Payload of the three checkpoint points. */
typedef struct sconce_checkpoint {
  sconce_text path;  /* absolute, of its directory */
  sconce_text tag;   /* the directory's name */
  sconce_text hook;  /* the hook that requested it, or empty */
  sconce_text error; /* why it could not be written; empty on success */
  uint64_t bytes;    /* 0 before it is written */
  double seconds;    /* taken to write or read it */
  /* What a state keeps that names the checkpoint: checkpoint:TAG:EPOCH:UPDATE:SHA256, empty before it is on disk. The
   * host finds such texts in any state and keeps what they refer to. */
  sconce_text reference;
  sconce_text missing; /* after a load: references in the states whose checkpoints are gone, separated by spaces */
} sconce_checkpoint;

/* The host, as long as the process lives. */
typedef struct sconce_host {
  uint32_t abi_epoch;
  sconce_text version;     /* such as "sconce 0.1.0" */
  sconce_text api_version; /* of the interface that it was built with */
  /* The host's table of this name (SCONCE_…_ID), or null if it has none. */
  const void *(*query)(sconce_text extension);
} sconce_host;

/* What is known at a hook's creation; borrowed for `create`. */
typedef struct sconce_setup {
  const sconce_host *host;
  const void *context;       /* argument of the host's functions */
  sconce_text name;          /* of the manifest entry */
  sconce_text run_directory; /* absolute path */
  sconce_text manifest;      /* the resolved manifest, JSON */
  uint64_t seed;
} sconce_setup;

/* Functions of a hook. `instance` is what `create` has returned. */
typedef struct sconce_hook_table {
  uint32_t (*call)(void *instance, uint32_t point, const sconce_view *view, sconce_error *error);
  /* Writes the hook's state by sconce_c_table.append; nothing for a hook without state. */
  uint32_t (*save_state)(void *instance, sconce_bytes *state, sconce_error *error);
  uint32_t (*load_state)(void *instance, const uint8_t *state, size_t length, sconce_error *error);
  /* Frees `instance`, even if it fails. Called once. */
  uint32_t (*drop)(void *instance, sconce_error *error);
} sconce_hook_table;

typedef struct sconce_hook {
  void *instance;
  const sconce_hook_table *table; /* as long as the process lives */
} sconce_hook;

/* A plugin; as long as the process lives. */
typedef struct sconce_plugin {
  uint32_t abi_epoch; /* SCONCE_ABI_EPOCH */
  /* Writes the metadata with configuration schemas. Null: the host takes both from the metadata section. */
  uint32_t (*describe)(sconce_string *description, sconce_error *error);
  /* Creates a hook of this kind, which is one of the metadata section's; `config` is a JSON object that satisfies its
   * schema. What a schema can't express is refused with SCONCE_CONFIG and the message "`OPTION`: what is wrong with it". */
  uint32_t (*create)(sconce_text kind, sconce_text config, const sconce_setup *setup, sconce_hook *hook,
                     sconce_error *error);
  /* The plugin's table of this name. Null: it has none. */
  const void *(*query)(sconce_text extension);
} sconce_plugin;

/* The function that a plugin defines. Null: the plugin won't work with this host. */
#if defined(_WIN32)
#define SCONCE_EXPORT __declspec(dllexport)
#else
#define SCONCE_EXPORT __attribute__((visibility("default")))
#endif
SCONCE_EXPORT const sconce_plugin *sconce_c_plugin_v1(const sconce_host *host);

/* ---- Extensions: tables of the host, by name. All take the context of the view or the setup at hand. ---- */

/* What C needs to use the host's types. A plugin should require it (SCONCE_HOOK does). */
#define SCONCE_C_ID "sconce.c/1"
typedef struct sconce_c_table {
  /* Describes a failure; `place` is a location such as "clip.c:12", or empty. */
  void (*set_error)(sconce_error *error, sconce_text message, sconce_text place);
  /* The message, borrowed until the error changes. */
  sconce_text (*read_error)(const sconce_error *error);
  /* Takes the message back: for a failure of the host's that the hook has dealt with. */
  void (*clear_error)(sconce_error *error);
  /* Appends to a hook's state. */
  void (*append)(sconce_bytes *bytes, const uint8_t *data, size_t length);
  void (*set_string)(sconce_string *string, sconce_text text);
  /* The value at an RFC 6901 pointer such as "/max_norm" or "/train/epochs" of a JSON text: SCONCE_OK, SCONCE_NOT_FOUND
   * if there is none or it is null, SCONCE_INVALID if it is of another type or the text is not JSON. Elements of a list
   * are "/edges/0", "/edges/1", … up to the first that is SCONCE_NOT_FOUND. */
  uint32_t (*json_number)(sconce_text json, sconce_text pointer, double *value);
  uint32_t (*json_bool)(sconce_text json, sconce_text pointer, uint32_t *value);
  /* Copies at most `capacity` bytes, without a null character at the end; `length` is set to that of the whole text. */
  uint32_t (*json_text)(sconce_text json, sconce_text pointer, uint8_t *text, size_t capacity, size_t *length);
} sconce_c_table;

#define SCONCE_WARN 1u
#define SCONCE_INFO 2u
#define SCONCE_DEBUG 3u

/* Messages of hooks, shown by the host, which manages the terminal. */
#define SCONCE_LOG_ID "sconce.log/1"
typedef struct sconce_log_table {
  /* Logs a message at the level of this number; unknown levels are treated as the level for information. */
  uint32_t (*log)(const void *context, uint32_t level, sconce_text message);
} sconce_log_table;

typedef struct sconce_metric {
  sconce_text name; /* as long as the run */
  double value;
} sconce_metric;

/* Metrics of the phase in progress are means over the samples so far; those of another phase are the values at the
 * end of its last pass. */
#define SCONCE_METRICS_ID "sconce.metrics/1"
typedef struct sconce_metrics_table {
  /* Number of metrics of the phase with this number. */
  size_t (*count)(const void *context, uint32_t phase);
  /* The metric at an index, in order of first appearance. */
  uint32_t (*at)(const void *context, uint32_t phase, size_t index, sconce_metric *value);
  /* Value of the metric with this name. */
  uint32_t (*get)(const void *context, uint32_t phase, sconce_text name, double *value);
  /* Sets a metric of the current phase, visible until the phase's next pass begins. */
  uint32_t (*publish)(const void *context, sconce_text name, double value, sconce_error *error);
} sconce_metrics_table;

#define SCONCE_TENSOR_WRITABLE 1u
#define SCONCE_TENSOR_BUFFER 2u /* part of the model's state, but not learned from gradients */

/* A tensor, borrowed for the call. */
typedef struct sconce_tensor {
  void *data;             /* the first element */
  uint64_t byte_length;   /* from `data` on, with gaps between elements */
  const int64_t *shape;   /* `dimensions` sizes */
  const int64_t *strides; /* `dimensions` strides in elements, never negative */
  sconce_text name;
  uint64_t flags; /* SCONCE_TENSOR_…; ignore unknown bits */
  uint32_t dimensions;
  int32_t device_type; /* as in DLPack: 1 is the CPU */
  int32_t device_id;
  uint8_t type_code; /* as in DLPack: 0 signed, 1 unsigned, 2 float, 4 bfloat */
  uint8_t type_bits;
  uint16_t type_lanes; /* always 1 */
} sconce_tensor;

/* Collections of tensors. */
#define SCONCE_PARAMETERS 0u /* parameters and buffers, in order of registration */
/* At the parameters' indices. Slots without a gradient are empty: those of buffers and of frozen parameters. With
 * accumulation they are this batch's share at after_backward, the update's sum at before_update. */
#define SCONCE_GRADIENTS 1u
/* inputs, targets, outputs, loss, and others that the task names. Inputs and outputs are mostly 32-bit floats, tokens 32-bit
 * unsigned integers; so are targets that are classes, real values are 32-bit floats. `find` also knows `indices`, the
 * samples' in their data set, 32-bit unsigned integers. */
#define SCONCE_BATCH 2u
#define SCONCE_MODULE 3u     /* input, output, input_gradient, output_gradient */
#define SCONCE_PUBLISHED 4u  /* published by hooks */
#define SCONCE_CHECKPOINT 5u /* extra tensors of the current checkpoint */
#define SCONCE_OPTIMIZER 6u  /* such as fc1.weight.exp_avg */

/* Parameters, gradients, the batch and others in the host's memory; the set of collections is open. */
#define SCONCE_TENSORS_ID "sconce.tensors/1"
typedef struct sconce_tensors_table {
  /* Current number of slots of the `Collection` with this number; some may be empty. */
  size_t (*count)(const void *context, uint32_t collection);
  /* The tensor at an index. The status is `NOT_FOUND` for an empty slot. */
  uint32_t (*at)(const void *context, uint32_t collection, size_t index, uint32_t writable, sconce_tensor *value,
                 sconce_error *error);
  /* The index of the tensor with this name. */
  uint32_t (*find)(const void *context, uint32_t collection, sconce_text name, size_t *value, sconce_error *error);
} sconce_tensors_table;

/* A tensor whose memory is kept. */
typedef struct sconce_retained {
  sconce_tensor tensor;
  void *token; /* what keeps its memory */
} sconce_retained;

/* Tensors whose memory outlives the call, for languages that count references. */
#define SCONCE_RETAIN_ID "sconce.retain/1"
typedef struct sconce_retain_table {
  /* As `at` of the tensors, but the elements, shape and strides stay at their addresses until `token` is released.
   * The name is borrowed for the call. The host goes on using the memory: after the call its elements may change at
   * any time, and writing to them is an error even where `writable` was granted. */
  uint32_t (*retain)(const void *context, uint32_t collection, size_t index, uint32_t writable, sconce_retained *value,
                     sconce_error *error);
  /* Releases the memory behind a token, once; does nothing for null. May be called from any thread and at any time. */
  void (*release)(void *token);
} sconce_retain_table;

/* How long a published value or tensor is kept. */
#define SCONCE_KEEP_BATCH 0u
#define SCONCE_KEEP_EPOCH 1u
#define SCONCE_KEEP_RUN 2u        /* in checkpoints, too */
#define SCONCE_KEEP_CHECKPOINT 3u /* an extra entry of the checkpoint at hand */

/* Values and tensors that hooks publish, and extra entries of checkpoints; the set of lifetimes (`Keep`) is open.
 * Tensors are read back through `sconce.tensors/1`. */
#define SCONCE_VALUES_ID "sconce.values/1"
typedef struct sconce_values_table {
  /* Sets the value of this name, as JSON, with the `Keep` of this number. */
  uint32_t (*set)(const void *context, uint32_t keep, sconce_text name, sconce_text json, sconce_error *error);
  /* Sets the tensor of this name; its elements must be contiguous and are copied. */
  uint32_t (*set_tensor)(const void *context, uint32_t keep, sconce_text name, const sconce_tensor *tensor,
                         sconce_error *error);
  /* The value of this name as JSON, valid until a value of this name is set again. `keep` only distinguishes the
   * checkpoint's entries from all others. */
  uint32_t (*get)(const void *context, uint32_t keep, sconce_text name, sconce_text *value);
  /* Removes the value or tensor of this name. */
  uint32_t (*remove)(const void *context, sconce_text name, sconce_error *error);
} sconce_values_table;

/* Requests, with the meaning of `number` and `text`. Where each is legal: docs/mount-points.md. */
#define SCONCE_STOP 1u              /* after this iteration; text: the reason */
#define SCONCE_STOP_AFTER_EPOCH 2u  /* after this epoch and its validation; text: the reason */
#define SCONCE_SKIP_BATCH 3u
#define SCONCE_SKIP_UPDATE 4u
#define SCONCE_SET_LEARNING_RATE 5u /* number; text: a group, or empty for all */
#define SCONCE_SCALE_LOSS 6u        /* number: factor of this batch's loss */
#define SCONCE_SAVE_CHECKPOINT 7u   /* text: its tag; number: 1 for the parameters alone */
#define SCONCE_VALIDATE 8u
#define SCONCE_ROLL_BACK 9u         /* text: a checkpoint's tag */
#define SCONCE_SWAP_PARAMETERS 10u  /* text: a published set */
#define SCONCE_SWAP_BACK 11u
#define SCONCE_LOAD_PARAMETERS 12u  /* text: TAG or TAG/SET */
#define SCONCE_DELETE_CHECKPOINT 13u
#define SCONCE_COPY_CHECKPOINT 14u  /* text: FROM/TO */
#define SCONCE_PUBLISH_WEIGHTS 15u  /* text: TAG/NAME or TAG/NAME/SET */
#define SCONCE_SAVE_IN_BACKGROUND 16u
#define SCONCE_LEAVE_OUT_POINT 17u  /* at creation; number: a mount point */
#define SCONCE_LISTEN_AT_MODULES 18u
#define SCONCE_FREEZE 19u           /* text: a parameter; number: factor of its learning rate, 0 freezes it */
#define SCONCE_SET_ACCUMULATION 20u /* number: batches per update */
#define SCONCE_SET_MOMENTUM 21u     /* number; text: a group, or empty for all */
#define SCONCE_RENEW_STATISTICS 22u /* number: training samples, 0 for all */
#define SCONCE_DECLARE_METRIC 23u   /* at creation; text: a metric that the hook publishes, or a pattern for several */
#define SCONCE_SET_WEIGHT_DECAY 24u /* number; text: a group, or empty for all */
#define SCONCE_DECLARE_ASKS 25u     /* at creation; text: the only requests with this configuration, as "stop,freeze" */
#define SCONCE_DECLARE_READS 26u    /* at creation; text: all that it reads of the loop, as "inputs,gradients" */
#define SCONCE_GENERATE 27u         /* text: {"prompts": ["..."], "tokens": 40}; the value "generated_text" then has what the model has written */
#define SCONCE_SELECT_MODULES 28u   /* at creation; text: the only modules at which it is called, as "fc1,fc2" */

/* Requests that a hook may make to the run; the set of requests is open. */
#define SCONCE_REQUESTS_ID "sconce.requests/1"
typedef struct sconce_requests_table {
  /* Makes the `Request` with this number, with a numeric and a text argument. */
  uint32_t (*request)(const void *context, uint32_t request, double number, sconce_text text, sconce_error *error);
} sconce_requests_table;

/* A group of the optimizer's parameters. */
typedef struct sconce_group {
  sconce_text name; /* as long as the run */
  double learning_rate;
  double weight_decay;
} sconce_group;

/* Constants of the task, and the optimizer's parameter groups. */
#define SCONCE_TASK_ID "sconce.task/1"
typedef struct sconce_task_table {
  /* The facts that do not change during the run, as a JSON object (`TaskFacts`), valid until the end of the run. Not
   * found at a hook's creation. */
  uint32_t (*facts)(const void *context, sconce_text *value);
  /* Number of the optimizer's parameter groups. */
  size_t (*group_count)(const void *context);
  /* The parameter group at an index. */
  uint32_t (*group)(const void *context, size_t index, sconce_group *value);
} sconce_task_table;

/* Properties of the run that are computed on demand. */
#define SCONCE_RUN_ID "sconce.run/1"
typedef struct sconce_run_table {
  /* Seconds since the run began, on a monotonic clock, including the time before a resume. */
  double (*elapsed_seconds)(const void *context);
  /* Estimated seconds until the end of training; negative if there is no basis for an estimate. */
  double (*remaining_seconds)(const void *context);
} sconce_run_table;

/* Losses that are read on demand: on a GPU, reading one waits until it has been computed. The host reads it before
 * it calls a hook, whose view then has it, unless the hook has queried this table when it was created: by that it
 * promises to read the loss here where the view says that it waits. */
#define SCONCE_LOSS_ID "sconce.loss/1"
typedef struct sconce_loss_table {
  /* Loss of the current phase's last batch; waits for the device. Not found before the first, and where the view has
   * the loss. */
  uint32_t (*current)(const void *context, double *value);
  /* Writes the losses of the last training batches, the newest last, as many as there is room for; waits for the
   * device. Returns their number. Only losses that hooks have seen as waiting are among them, of at least the last
   * 1,024 batches. */
  size_t (*recent)(const void *context, double *losses, size_t losses_length);
} sconce_loss_table;

/* The GPU that the run computes on: on the CPU all functions return SCONCE_NOT_FOUND, or no spans. Bytes; fractions from 0 to
 * 1; seconds as elapsed_seconds. */
typedef struct sconce_gpu_figures {
  uint64_t used;      /* of the run's tensors */
  uint64_t peak;      /* the most that they have had */
  uint64_t reserved;  /* taken from the GPU, for tensors now and later */
  uint64_t free;      /* used by nobody, of all processes */
  uint64_t total;
  double utilization; /* fraction of the time in which it was at work lately; NaN: unknown */
} sconce_gpu_figures;

typedef struct sconce_gpu_span {
  sconce_text name; /* copy, forward, loss, backward, update, and others; as long as the process */
  double begin;
  double duration;
  uint32_t stream; /* 0 computes, 1 copies from the host */
} sconce_gpu_span;

/* Memory and load of the run's GPU, and when it did what. On the CPU all is not found, and there are no spans. */
#define SCONCE_GPU_ID "sconce.gpu/1"
typedef struct sconce_gpu_table {
  /* Name of the GPU, as its driver gives it; as long as the run. */
  uint32_t (*name)(const void *context, sconce_text *value);
  /* Memory and load, now. Doesn't wait for the GPU. */
  uint32_t (*figures)(const void *context, sconce_gpu_figures *value);
  /* Waits until the GPU has done all that was asked of it. */
  uint32_t (*synchronize)(const void *context, sconce_error *error);
  /* Begins or ends recording when the GPU does what. Waits for it when it begins. */
  uint32_t (*record)(const void *context, uint32_t is_on, sconce_error *error);
  /* Takes recorded spans, in the order in which the work was queued, as many as there is room for; waits for the
   * last. Returns their number; 0 once all have been taken. */
  size_t (*take)(const void *context, sconce_gpu_span *spans, size_t spans_length);
} sconce_gpu_table;

#define SCONCE_RESUMED 1u /* the run resumes from a checkpoint */
#define SCONCE_KNOWN 2u   /* which has a record of this hook */
#define SCONCE_RELOADED 4u /* it takes the place of another instance in mid-run, with its state */

/* Whether the run resumes from a checkpoint that contains the hook. */
#define SCONCE_RESUME_ID "sconce.resume/1"
typedef struct sconce_resume_table {
  /* Flags for the hook that is being called or created. Unknown bits are ignored. */
  uint64_t (*flags)(const void *context);
} sconce_resume_table;

/* The plan of the run, as far as it is known before the run begins. */
#define SCONCE_PLAN_ID "sconce.plan/1"
typedef struct sconce_plan_table {
  /* The plan as a JSON object (`Plan`), valid until the end of the run; from a hook's creation on. Its members:
   * `epochs`, `accumulate`, `phases` (objects with `phase`, `samples`, `batches`, `passes`), `parameters` (`name`,
   * `is_buffer`), `modules` (`name`, `kind`), `groups`, `classes`, `sample_shape` and `metrics`. Refuse an unknown
   * name at the hook's creation: `sconce check` then finds it. */
  uint32_t (*plan)(const void *context, sconce_text *value);
} sconce_plan_table;

/* Claims what only one hook of a run can have; at a hook's creation. */
#define SCONCE_CLAIMS_ID "sconce.claims/1"
typedef struct sconce_claims_table {
  /* Claims a resource, named by a text, for the hook that is being created. If another hook of the run has claimed
   * it, the message names both hooks. */
  uint32_t (*claim)(const void *context, sconce_text what, sconce_error *error);
} sconce_claims_table;

/* The terminal that messages go to, and its status line. */
#define SCONCE_SCREEN_ID "sconce.screen/1"
typedef struct sconce_screen_table {
  /* Width of the terminal in columns; 0 if messages do not go to a terminal. */
  uint32_t (*columns)(const void *context);
  /* Sets the status line below all messages, replacing the previous one; empty text removes it. */
  uint32_t (*status)(const void *context, sconce_text text);
} sconce_screen_table;

/* A part of parallel work, called with the data that was given with it and its number. */
typedef void (*sconce_part)(const void *data, uint32_t index);

/* Parallel work on the host's threads. */
#define SCONCE_THREADS_ID "sconce.threads/1"
typedef struct sconce_threads_table {
  /* Number of threads that the host computes on, including the training thread. */
  uint32_t (*count)(const void *context);
  /* Calls `part` with `data` and each index below `parts`; returns when all calls are done. The calls are made in
   * parallel on any of these threads. `part` does not unwind and calls no function of the host. Any status but OK
   * means that no part was called. */
  uint32_t (*run)(const void *context, uint32_t parts, sconce_part part, const void *data, sconce_error *error);
} sconce_threads_table;

/* Passes over whole collections, done by the host: where the elements are, with all its threads. */
#define SCONCE_WHOLE 0xFFFFFFFFu /* as `axis`: each tensor is one slice */
typedef struct sconce_vectors {
  const size_t *indices; /* `count` indices; NULL for all slots that are not empty */
  size_t count;
  uint32_t collection;
  uint32_t axis; /* the dimension whose slices are treated one by one; a tensor without it is one slice */
} sconce_vectors;

#define SCONCE_REDUCE_POWERS 0u       /* sum of |x| to the power `number`, above 0 */
#define SCONCE_REDUCE_LARGEST 1u      /* the largest |x|; NaN if any x is */
#define SCONCE_REDUCE_NOT_FINITE 2u   /* how many are infinite or NaN */
#define SCONCE_REDUCE_NOT_A_NUMBER 3u /* how many are NaN */
#define SCONCE_CHANGE_SCALE 0u        /* x * numbers[0] */
#define SCONCE_CHANGE_SCALE_SLICES 1u /* x * the number of its slice */
#define SCONCE_CHANGE_CLAMP 2u        /* at least numbers[0], at most numbers[1] */
#define SCONCE_CHANGE_FILL 3u         /* numbers[0] */
#define SCONCE_COMBINE_ADD 0u         /* x + weight * y */
#define SCONCE_COMBINE_BLEND 1u       /* x + weight * (y - x) */
#define SCONCE_COMBINE_MULTIPLY 2u    /* x * y */
#define SCONCE_COMBINE_COPY 3u        /* y */

/* Passes over whole collections, done by the host where the elements are; the sets of reductions, changes and
 * combinations are open. All arguments are borrowed for the call. The status is `NOT_FOUND` for an index whose slot
 * is empty, `UNSUPPORTED` for an unknown number or a type of elements that the operation doesn't know,
 * `NOT_LEGAL_HERE` where tensors can't be written to, and `INVALID` if two tensors that are written to, or one of
 * them and one that is read, share elements. With any status but OK nothing has been changed. */
#define SCONCE_VECTORS_ID "sconce.vectors/1"
typedef struct sconce_vectors_table {
  /* Reduces each slice to a number: the `Reduction` of this number; `number` is its parameter. Writes one result per
   * slice, in order, and their count. If there is no room for all, nothing is computed, and the status is OK. */
  uint32_t (*reduce)(const void *context, uint32_t reduction, double number, const sconce_vectors *vectors,
                     double *results, size_t results_length, size_t *value, sconce_error *error);
  /* Changes the tensors in place: the `Change` of this number, with its numbers. */
  uint32_t (*change)(const void *context, uint32_t change, const sconce_vectors *vectors,
                     const double *numbers, size_t numbers_length, sconce_error *error);
  /* Combines each tensor of `onto` with that of `from` at the same place: the `Combination` of this number, with its
   * weight. As many tensors, of the same shapes and types. */
  uint32_t (*combine)(const void *context, uint32_t combination, double weight, const sconce_vectors *onto,
                      const sconce_vectors *from, sconce_error *error);
} sconce_vectors_table;

/* The device that computes, and tensors where they are on it. All other tables lend host memory: what is on a GPU is copied. A
 * hook in a process of its own has no use for this, and is refused if it requires it. */
#define SCONCE_DEVICE_CPU 1  /* as in DLPack */
#define SCONCE_DEVICE_CUDA 2
typedef struct sconce_device {
  int32_t device_type;
  int32_t device_id;
  uint32_t capability_major; /* 0 on the CPU */
  uint32_t capability_minor;
  sconce_text name; /* empty on the CPU; as long as the run */
  void *stream;     /* CUstream in whose order the host works; NULL on the CPU */
  void *context;    /* CUcontext; NULL on the CPU */
} sconce_device;

/* The device that computes, and tensors where they are on it. A hook in a process of its own has no use for it, and
 * is refused if it requires it. */
#define SCONCE_DEVICE_ID "sconce.device/1"
typedef struct sconce_device_table {
  /* The device; from creation on. */
  uint32_t (*facts)(const void *context, sconce_device *value, sconce_error *error);
  /* As `at` of the tensors, with the address on the device where the tensor is, which its type and number say. What
   * the host has been asked to compute before is in the stream before anything the hook adds to it; what the hook
   * writes there, it writes in the stream's order, and has asked for when it returns. */
  uint32_t (*tensor)(const void *context, uint32_t collection, size_t index, uint32_t writable, sconce_tensor *value,
                     sconce_error *error);
} sconce_device_table;

/* The processes that train together. What their hooks exchange is collective: a hook that runs on all ranks calls
 * `gather` on all of them in the same call and with the same length. It is declared as one of all ranks, or its
 * manifest entry says `"ranks": "all"`. Points, in training alone: `before_run`, `after_load_checkpoint`,
 * `epoch_profile`, `before_` and `after_` of `loop`, `epoch`, `iter` and `update`, `after_cycle`. */
#define SCONCE_RANKS_ID "sconce.ranks/1"
typedef struct sconce_ranks_table {
  /* Number of this process among those that train together, from 0. */
  uint32_t (*rank)(const void *context);
  /* Number of processes that train together, at least 1. */
  uint32_t (*size)(const void *context);
  /* 1 if the current training batch repeats one of rank 0, because there is none left for this rank; else 0. Its
   * results are dropped: a hook that counts or sums leaves it out. */
  uint32_t (*is_repeated)(const void *context);
  /* Copies every rank's bytes `own` to `all` on all ranks, in the order of ranks; `all` has as many bytes for each
   * rank. Legal for hooks that run on all ranks, where `why_no_gather_at` says so. */
  uint32_t (*gather)(const void *context, const uint8_t *own, size_t own_length, uint8_t *all, size_t all_length,
                     sconce_error *error);
} sconce_ranks_table;

/* Forward passes of the model on the batch, without gradient and with parameters that hooks choose. They are run
 * before the call returns, and legal at `before_iter` alone: later the batch's own pass refers to the parameters. */
#define SCONCE_FORWARD_ID "sconce.forward/1"
typedef struct sconce_forward_table {
  /* Runs the model on a view of the batch, and publishes a module's output for the batch, under `name`. The
   * parameters are those of the published set `set` (tensors `SET/PARAMETER`; what it lacks is the model's own), or
   * the current ones if it is empty. A batch of several views has their samples one view after the other; `view` is
   * an index, or `ForwardTable::WHOLE` (`SCONCE_WHOLE`). `module` is a name, empty for the last. `mode` is the
   * number of a `ForwardMode`. No hook is called meanwhile, and nothing else of the run changes. What this call of
   * the hook has written to tensors may not be seen yet. */
  uint32_t (*run)(const void *context, sconce_text set, uint32_t view, sconce_text module, uint32_t mode,
                  sconce_text name, sconce_error *error);
} sconce_forward_table;

/* The loss of the batch, given at `after_forward` in the place of the task's: what a manifest with `"loss": "given"`
 * needs in each batch, of evaluations too. Hooks that give it run on all ranks. */
#define SCONCE_GIVEN_LOSS_ID "sconce.given-loss/1"
typedef struct sconce_given_loss_table {
  /* Sets the batch's loss, a mean over its samples, and its gradient with respect to the batch's `outputs`. The
   * gradient has the outputs' shape, or one dimension with as many elements in row-major order; `f32` or `f64`,
   * contiguous, and copied. It is looked at in training alone, and may be empty otherwise. */
  uint32_t (*set)(const void *context, double value, const sconce_tensor *gradient, sconce_error *error);
} sconce_given_loss_table;

/* ---- Transports: a table of the plugin's, answered by its `query` ---- */

/* Moves bytes between the processes of a run, its ranks. All lengths and offsets are in bytes; a list of offsets has one
 * more element than there are ranks, begins with 0 and does not decrease. Calls come one after the other, on any thread;
 * every rank makes the same ones. After a failure only `abort` and `close` are called. */
#define SCONCE_TRANSPORT_ID "sconce.transport/1"
typedef struct sconce_transport_table {
  /* `config`: the manifest's `distributed`. `timeout`: seconds to wait for other ranks. Sets `facts` to JSON such as
   * {"rank": 0, "size": 2, "hosts": ["a", "b"], "about": "Open MPI 4.1.4"}. */
  uint32_t (*open)(sconce_text name, sconce_text config, double timeout, void **instance, sconce_string *facts,
                   sconce_error *error);
  uint32_t (*broadcast)(void *instance, uint8_t *data, uint64_t length, uint64_t root, sconce_error *error);
  /* `length` bytes of every rank go to `all`, in the order of ranks. */
  uint32_t (*gather)(void *instance, const uint8_t *own, uint64_t length, uint8_t *all, sconce_error *error);
  /* The bytes from send_at[r] to send_at[r + 1] go to the rank r; those from it to receive_at[r]. */
  uint32_t (*exchange)(void *instance, const uint8_t *send, const uint64_t *send_at, uint8_t *receive,
                       const uint64_t *receive_at, sconce_error *error);
  /* The bytes from at[r] to at[r + 1] of each rank r go to all ranks, in place. */
  uint32_t (*collect)(void *instance, uint8_t *data, const uint64_t *at, sconce_error *error);
  void (*abort)(void *instance, uint32_t code); /* ends all ranks with this exit code */
  uint32_t (*close)(void *instance, sconce_error *error);
} sconce_transport_table;

/* ---- Metadata ---- */

#define SCONCE_STRINGIFY_(x) #x
#define SCONCE_STRINGIFY(x) SCONCE_STRINGIFY_(x)

#if defined(__x86_64__) || defined(_M_X64)
#define SCONCE_ARCH_ "x86_64"
#elif defined(__aarch64__) || defined(_M_ARM64)
#define SCONCE_ARCH_ "aarch64"
#endif
#if defined(__linux__) && defined(__GLIBC__)
#define SCONCE_SYSTEM_ "-unknown-linux-gnu"
#elif defined(__linux__)
#define SCONCE_SYSTEM_ "-unknown-linux-musl"
#elif defined(__APPLE__)
#define SCONCE_SYSTEM_ "-apple-darwin"
#elif defined(_WIN32)
#define SCONCE_SYSTEM_ "-pc-windows-msvc"
#endif
/* Define SCONCE_TARGET, as `rustc -vV` prints it under `host`, where this is not known. */
#if !defined(SCONCE_TARGET) && defined(SCONCE_ARCH_) && defined(SCONCE_SYSTEM_)
#define SCONCE_TARGET SCONCE_ARCH_ SCONCE_SYSTEM_
#endif
#if defined(__clang__)
#define SCONCE_COMPILER_ "clang " __clang_version__
#elif defined(__GNUC__)
#define SCONCE_COMPILER_ "gcc " __VERSION__
#else
#define SCONCE_COMPILER_ "unknown"
#endif
#ifdef __cplusplus
#define SCONCE_LANGUAGE_ "c++"
#else
#define SCONCE_LANGUAGE_ "c"
#endif
#if defined(__APPLE__)
#define SCONCE_SECTION_ __attribute__((used, section("__DATA,__sconce_plugin")))
#elif defined(__GNUC__)
#define SCONCE_SECTION_ __attribute__((used, section(".sconce.plugin")))
#else
#define SCONCE_SECTION_
#endif

/* A mount point of a hook, in SCONCE_HOOK: SCONCE_AT(AFTER_ITER, "after_iter"). */
#define SCONCE_AT(number, name) "{\"number\":" SCONCE_AT_(SCONCE_##number) ",\"name\":\"" name "\"}"
#define SCONCE_AT_(number) SCONCE_AT__(number)
#define SCONCE_AT__(number) SCONCE_DIGITS_(number)
#define SCONCE_DIGITS_(number) #number

/* JSON as it is written, as a string: SCONCE_JSON({"type": "object"}). */
#define SCONCE_JSON(...) #__VA_ARGS__

/* A hook kind: its name, what it is for in one sentence, its default priority from 0 to 100 (lower is called earlier),
 * its mount points (SCONCE_AT, separated by ","), and the JSON Schema of its configuration (SCONCE_JSON). Before `create`
 * the host checks the configuration against the schema: with "additionalProperties": false it refuses mistyped options. */
#define SCONCE_HOOK(name, about, priority, points, schema)                                                             \
  SCONCE_PUBLISHING_HOOK(name, about, priority, points, "", schema)

/* As SCONCE_HOOK, for a hook that publishes metrics: their names (SCONCE_METRIC, separated by ","). */
#define SCONCE_PUBLISHING_HOOK(name, about, priority, points, metrics, schema)                                         \
  SCONCE_HOOK_ON_("first", name, about, priority, points, metrics, schema)

/* As SCONCE_PUBLISHING_HOOK, for a hook that runs on all ranks where several processes train together, because it changes
 * parameters or gradients, or counts batches. The others run on the first rank alone. */
#define SCONCE_HOOK_ON_ALL_RANKS(name, about, priority, points, metrics, schema)                                       \
  SCONCE_HOOK_ON_("all", name, about, priority, points, metrics, schema)

/* As SCONCE_HOOK_ON_ALL_RANKS, for a hook that works on the device itself, by SCONCE_DEVICE_ID: a host that lacks it refuses the
 * hook before the run, and so does one that is to give it a process of its own. */
#define SCONCE_HOOK_ON_DEVICE(name, about, priority, points, metrics, schema)                                          \
  SCONCE_HOOK_REQUIRING_("all", "\"" SCONCE_C_ID "\",\"" SCONCE_DEVICE_ID "\"", name, about, priority, points, metrics, schema)

#define SCONCE_HOOK_ON_(ranks, name, about, priority, points, metrics, schema)                                         \
  SCONCE_HOOK_REQUIRING_(ranks, "\"" SCONCE_C_ID "\"", name, about, priority, points, metrics, schema)
#define SCONCE_HOOK_REQUIRING_(ranks, extensions, name, about, priority, points, metrics, schema)                      \
  "{\"name\":\"" name "\",\"about\":\"" about "\",\"priority\":" SCONCE_STRINGIFY(priority) ",\"points\":[" points      \
  "],\"requires\":[" extensions "],\"publishes\":[" metrics "],\"ranks\":\"" ranks                                       \
  "\",\"config_schema\":" schema "}"
#define SCONCE_METRIC(name) "\"" name "\""

/* Behind a hook's schema: the requests that it makes ("stop", "save_checkpoint", …: the names of SCONCE_STOP and the like), and what
 * of the loop it reads or changes ("parameters", "gradients", "inputs", "targets", "outputs", "batch", "sample_indices", "optimizer",
 * "loss", "groups", "ranks", "device"), each by SCONCE_NAME, separated by ",":
 *   SCONCE_JSON({"type": "object"}) SCONCE_ASKS(SCONCE_NAME("stop")) SCONCE_READS(SCONCE_NAME("loss"))
 * A loop other than the host's own may lack some, and refuses the hook by these lists before the run; without them it can't know. */
#define SCONCE_ASKS(names) ",\"asks\":[" names "]"
#define SCONCE_READS(names) ",\"reads\":[" names "]"
#define SCONCE_NAME(name) "\"" name "\""

/* The metadata section, once in a library: its name, version and purpose, and its hooks (SCONCE_HOOK, separated by ","). */
#define SCONCE_PLUGIN(name, version, about, hooks)                                                                     \
  SCONCE_SECTION_BYTES_("{\"name\":\"" name "\",\"version\":\"" version "\",\"about\":\"" about                         \
                        "\",\"abi_epoch\":1,\"api_version\":\"" SCONCE_API_VERSION "\",\"rustc\":\"" SCONCE_COMPILER_   \
                        "\",\"language\":\"" SCONCE_LANGUAGE_ "\",\"target\":\"" SCONCE_TARGET "\",\"panic\":\"none\",\"hooks\":[" hooks "]}")
/* A library with transports and no hooks; `transports`: one or more SCONCE_TRANSPORT, separated by ",". Its plugin needs
 * `query` alone. */
#define SCONCE_TRANSPORT_PLUGIN(name, version, about, transports)                                                      \
  SCONCE_SECTION_BYTES_("{\"name\":\"" name "\",\"version\":\"" version "\",\"about\":\"" about                         \
                        "\",\"abi_epoch\":1,\"api_version\":\"" SCONCE_API_VERSION "\",\"rustc\":\"" SCONCE_COMPILER_   \
                        "\",\"language\":\"" SCONCE_LANGUAGE_ "\",\"target\":\"" SCONCE_TARGET                            \
                        "\",\"panic\":\"none\",\"hooks\":[],\"transports\":[" transports "]}")
#define SCONCE_TRANSPORT(name, about) "{\"name\":\"" name "\",\"about\":\"" about "\"}"
#define SCONCE_SECTION_BYTES_(text)                                                                                    \
  struct sconce_section_ {                                                                                             \
    char magic[8];                                                                                                     \
    uint32_t length;                                                                                                   \
    char json[sizeof(text)];                                                                                           \
  };                                                                                                                   \
  SCONCE_SECTION_ static const struct sconce_section_ sconce_metadata_section_ = {                                       \
      {'S', 'C', 'O', 'N', 'C', 'E', '\0', '\1'}, (uint32_t)(sizeof(text) - 1), text}

/* ---- Convenience ---- */

/* A text of a null-terminated string, which must live as long as the text is used. */
static inline sconce_text sconce_str(const char *string) {
  sconce_text text;
  text.pointer = (const uint8_t *)string;
  text.length = strlen(string);
  return text;
}

/* Whether a text is this string. */
static inline int sconce_is(sconce_text text, const char *string) {
  size_t length = strlen(string);
  return text.length == length && (length == 0 || memcmp(text.pointer, string, length) == 0);
}

/* Describes a failure with the current file and line, and is SCONCE_ERROR: `return sconce_fail(c, error, "…");`. */
#define sconce_fail(c_table, error, message)                                                                           \
  sconce_fail_at((c_table), (error), (message), __FILE__ ":" SCONCE_STRINGIFY(__LINE__))

static inline uint32_t sconce_fail_at(const sconce_c_table *c_table, sconce_error *error, const char *message,
                                      const char *place) {
  c_table->set_error(error, sconce_str(message), sconce_str(place));
  return SCONCE_ERROR;
}

#ifdef __cplusplus
}
#endif

#endif
