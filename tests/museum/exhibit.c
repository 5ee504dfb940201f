/* The hook `exhibit`: calls each function of each table, and writes what it was told to `exhibit.txt`. Valid in C99 and C++11; the hook in
 * Rust (rust/src/lib.rs) writes the same. */
#include <stdio.h>
#include <stdlib.h>

#include "sconce.h"

SCONCE_PLUGIN("exhibit", "1.0.0", "Calls every function.",
              SCONCE_HOOK_ON_ALL_RANKS("exhibit", "Calls every function, and writes what it was told.", 50,
                                       SCONCE_AT(BEFORE_RUN, "before_run") "," SCONCE_AT(AFTER_BACKWARD, "after_backward") ","
                                       SCONCE_AT(AFTER_EPOCH, "after_epoch") "," SCONCE_AT(BEFORE_SAVE_CHECKPOINT, "before_save_checkpoint"),
                                       SCONCE_METRIC("exhibit"),
                                       SCONCE_JSON({"type": "object", "additionalProperties": false, "properties": {"name": {"type": "string"}}})));

typedef struct exhibit {
  const sconce_c_table *c;
  const sconce_claims_table *claims;
  const sconce_device_table *device;
  const sconce_gpu_table *gpu;
  const sconce_log_table *log;
  const sconce_loss_table *loss;
  const sconce_metrics_table *metrics;
  const sconce_plan_table *plan;
  const sconce_ranks_table *ranks;
  const sconce_requests_table *requests;
  const sconce_resume_table *resume;
  const sconce_retain_table *retain;
  const sconce_run_table *run;
  const sconce_screen_table *screen;
  const sconce_task_table *task;
  const sconce_tensors_table *tensors;
  const sconce_threads_table *threads;
  const sconce_values_table *values;
  const sconce_vectors_table *vectors;
  FILE *file;
  uint64_t epochs; /* the state */
} exhibit;

static void add(const void *data, uint32_t index) {
  ((uint32_t *)(uintptr_t)data)[index] = index;
}

static uint32_t before_run(exhibit *self, const sconce_view *view, sconce_error *error) {
  const void *context = view->context;
  sconce_text text;
  sconce_group group;
  sconce_device device;
  double number = 0;
  uint32_t parts[3] = {9, 9, 9};
  uint8_t own = 7, all = 0;
  if (self->plan->plan(context, &text) != SCONCE_OK) return sconce_fail(self->c, error, "no plan");
  self->c->json_number(text, sconce_str("/epochs"), &number);
  fprintf(self->file, "plan: %.0f epochs\n", number);
  if (self->task->facts(context, &text) != SCONCE_OK) return sconce_fail(self->c, error, "no facts");
  self->c->json_number(text, sconce_str("/seed"), &number);
  fprintf(self->file, "seed %.0f\n", number);
  if (self->task->group_count(context) != 1 || self->task->group(context, 0, &group) != SCONCE_OK)
    return sconce_fail(self->c, error, "no group");
  fprintf(self->file, "group %.*s: %g, %g\n", (int)group.name.length, (const char *)group.name.pointer, group.learning_rate,
          group.weight_decay);
  if (self->device->facts(context, &device, error) != SCONCE_OK) return SCONCE_ERROR;
  fprintf(self->file, "device %d\n", device.device_type);
  fprintf(self->file, "a GPU: %s\n", self->gpu->name(context, &text) == SCONCE_OK ? "yes" : "no");
  fprintf(self->file, "a screen: %s\n", self->screen->columns(context) > 0 ? "yes" : "no");
  self->screen->status(context, sconce_str(""));
  if (self->threads->count(context) < 1 || self->threads->run(context, 3, add, parts, error) != SCONCE_OK) return SCONCE_ERROR;
  fprintf(self->file, "parts %u %u %u\n", parts[0], parts[1], parts[2]);
  if (self->ranks->gather(context, &own, 1, &all, 1, error) != SCONCE_OK) return SCONCE_ERROR;
  fprintf(self->file, "rank %u of %u gathered %u, repeated: %u\n", self->ranks->rank(context), self->ranks->size(context), all,
          self->ranks->is_repeated(context));
  fprintf(self->file, "resumed: %s\n", (self->resume->flags(context) & SCONCE_RESUMED) != 0 ? "yes" : "no");
  return SCONCE_OK;
}

static uint32_t after_backward(exhibit *self, const sconce_view *view, sconce_error *error) {
  const void *context = view->context;
  size_t index = 0, needed = 0;
  sconce_tensor tensor;
  sconce_retained kept;
  sconce_vectors one;
  double sum = 0, loss = 0, half = 0.5;
  int has_loss;
  if (view->phase != SCONCE_TRAIN || view->iteration > 0) return SCONCE_OK;
  if (self->tensors->find(context, SCONCE_PARAMETERS, sconce_str("fc1.weight"), &index, error) != SCONCE_OK) return SCONCE_ERROR;
  if (self->tensors->at(context, SCONCE_GRADIENTS, index, 1, &tensor, error) != SCONCE_OK) return SCONCE_ERROR;
  fprintf(self->file, "gradient %u of %u: %d by %d, type %u of %u bits\n", (unsigned)index,
          (unsigned)self->tensors->count(context, SCONCE_GRADIENTS), (int)tensor.shape[0], (int)tensor.shape[1], tensor.type_code,
          tensor.type_bits);
  memset(tensor.data, 0, (size_t)tensor.byte_length);
  one.indices = &index, one.count = 1, one.collection = SCONCE_GRADIENTS, one.axis = SCONCE_WHOLE;
  if (self->vectors->reduce(context, SCONCE_REDUCE_POWERS, 2, &one, &sum, 1, &needed, error) != SCONCE_OK) return SCONCE_ERROR;
  fprintf(self->file, "its sum of squares: %g\n", sum);
  if (self->vectors->change(context, SCONCE_CHANGE_SCALE, &one, &half, 1, error) != SCONCE_OK) return SCONCE_ERROR;
  if (self->retain->retain(context, SCONCE_PARAMETERS, index, 0, &kept, error) != SCONCE_OK) return SCONCE_ERROR;
  fprintf(self->file, "kept %.*s\n", (int)kept.tensor.name.length, (const char *)kept.tensor.name.pointer);
  self->retain->release(kept.token);
  /* On the CPU it is in the view. */
  has_loss = self->loss->current(context, &loss) == SCONCE_OK || (view->flags & SCONCE_VIEW_HAS_LOSS) != 0;
  fprintf(self->file, "a loss: %s, of the last batches: %u\n", has_loss ? "yes" : "no",
          (unsigned)self->loss->recent(context, &loss, 0));
  return SCONCE_OK;
}

static uint32_t after_epoch(exhibit *self, const sconce_view *view, sconce_error *error) {
  const void *context = view->context;
  sconce_metric metric;
  sconce_text text;
  double value = 0;
  int64_t size = 2, stride = 1;
  float numbers[2] = {1, 2};
  sconce_tensor tensor;
  if (view->phase != SCONCE_TRAIN) return SCONCE_OK;
  self->epochs++;
  if (self->requests->request(context, SCONCE_SET_LEARNING_RATE, 0.01, sconce_str(""), error) != SCONCE_OK) return SCONCE_ERROR;
  if (self->metrics->publish(context, sconce_str("exhibit"), (double)self->epochs, error) != SCONCE_OK) return SCONCE_ERROR;
  if (self->metrics->get(context, SCONCE_TRAIN, sconce_str("exhibit"), &value) != SCONCE_OK)
    return sconce_fail(self->c, error, "no metric");
  if (self->metrics->count(context, SCONCE_TRAIN) < 2 || self->metrics->at(context, SCONCE_TRAIN, 0, &metric) != SCONCE_OK)
    return sconce_fail(self->c, error, "no metrics");
  fprintf(self->file, "epoch %u: %g, first %.*s\n", (unsigned)self->epochs, value, (int)metric.name.length,
          (const char *)metric.name.pointer);
  if (self->values->set(context, SCONCE_KEEP_RUN, sconce_str("exhibit"), sconce_str("[1]"), error) != SCONCE_OK) return SCONCE_ERROR;
  if (self->values->get(context, SCONCE_KEEP_RUN, sconce_str("exhibit"), &text) != SCONCE_OK)
    return sconce_fail(self->c, error, "no value");
  fprintf(self->file, "value %.*s\n", (int)text.length, (const char *)text.pointer);
  memset(&tensor, 0, sizeof tensor);
  tensor.data = numbers, tensor.byte_length = sizeof numbers, tensor.shape = &size, tensor.strides = &stride;
  tensor.dimensions = 1, tensor.device_type = 1, tensor.type_code = 2, tensor.type_bits = 32, tensor.type_lanes = 1;
  if (self->values->set_tensor(context, SCONCE_KEEP_RUN, sconce_str("pair"), &tensor, error) != SCONCE_OK) return SCONCE_ERROR;
  if (self->values->remove(context, sconce_str("exhibit"), error) != SCONCE_OK) return SCONCE_ERROR;
  fprintf(self->file, "published tensors: %u\n", (unsigned)self->tensors->count(context, SCONCE_PUBLISHED) > 0);
  fprintf(self->file, "time goes: %s\n", self->run->elapsed_seconds(context) >= 0 ? "yes" : "no");
  self->log->log(context, SCONCE_INFO, sconce_str("an exhibit speaks"));
  return SCONCE_OK;
}

static uint32_t call(void *instance, uint32_t point, const sconce_view *view, sconce_error *error) {
  exhibit *self = (exhibit *)instance;
  uint32_t status = SCONCE_OK;
  if (point == SCONCE_BEFORE_RUN) status = before_run(self, view, error);
  if (point == SCONCE_AFTER_BACKWARD) status = after_backward(self, view, error);
  if (point == SCONCE_AFTER_EPOCH) status = after_epoch(self, view, error);
  if (point == SCONCE_BEFORE_SAVE_CHECKPOINT) {
    const sconce_checkpoint *checkpoint = (const sconce_checkpoint *)view->payload;
    fprintf(self->file, "checkpoint %.*s\n", (int)checkpoint->tag.length, (const char *)checkpoint->tag.pointer);
  }
  fflush(self->file);
  return status;
}

static uint32_t save_state(void *instance, sconce_bytes *state, sconce_error *error) {
  exhibit *self = (exhibit *)instance;
  (void)error;
  self->c->append(state, (const uint8_t *)&self->epochs, sizeof self->epochs);
  return SCONCE_OK;
}

static uint32_t load_state(void *instance, const uint8_t *state, size_t length, sconce_error *error) {
  exhibit *self = (exhibit *)instance;
  if (length != sizeof self->epochs) return sconce_fail(self->c, error, "another state");
  memcpy(&self->epochs, state, length);
  return SCONCE_OK;
}

static uint32_t drop(void *instance, sconce_error *error) {
  exhibit *self = (exhibit *)instance;
  (void)error;
  fclose(self->file);
  free(self);
  return SCONCE_OK;
}

static const sconce_hook_table TABLE = {call, save_state, load_state, drop};

#define FIND(table, id) self->table = (const sconce_##table##_table *)setup->host->query(sconce_str(id))

static uint32_t create(sconce_text kind, sconce_text config, const sconce_setup *setup, sconce_hook *hook, sconce_error *error) {
  exhibit *self = (exhibit *)calloc(1, sizeof *self);
  char path[4096], name[64];
  size_t length = 0;
  (void)kind;
  if (self == NULL) return SCONCE_ERROR;
  FIND(c, SCONCE_C_ID);
  FIND(claims, SCONCE_CLAIMS_ID);
  FIND(device, SCONCE_DEVICE_ID);
  FIND(gpu, SCONCE_GPU_ID);
  FIND(log, SCONCE_LOG_ID);
  FIND(loss, SCONCE_LOSS_ID);
  FIND(metrics, SCONCE_METRICS_ID);
  FIND(plan, SCONCE_PLAN_ID);
  FIND(ranks, SCONCE_RANKS_ID);
  FIND(requests, SCONCE_REQUESTS_ID);
  FIND(resume, SCONCE_RESUME_ID);
  FIND(retain, SCONCE_RETAIN_ID);
  FIND(run, SCONCE_RUN_ID);
  FIND(screen, SCONCE_SCREEN_ID);
  FIND(task, SCONCE_TASK_ID);
  FIND(tensors, SCONCE_TENSORS_ID);
  FIND(threads, SCONCE_THREADS_ID);
  FIND(values, SCONCE_VALUES_ID);
  FIND(vectors, SCONCE_VECTORS_ID);
  if (self->claims->claim(setup->context, sconce_str("the exhibit"), error) != SCONCE_OK) return SCONCE_ERROR;
  self->c->json_text(config, sconce_str("/name"), (uint8_t *)name, sizeof name - 1, &length);
  name[length < sizeof name ? length : 0] = 0;
  snprintf(path, sizeof path, "%.*s/exhibit.txt", (int)setup->run_directory.length, (const char *)setup->run_directory.pointer);
  self->file = fopen(path, "a");
  if (self->file == NULL) return sconce_fail(self->c, error, "its file can't be opened");
  fprintf(self->file, "%s, seed %u\n", name, (unsigned)setup->seed);
  hook->instance = self;
  hook->table = &TABLE;
  return SCONCE_OK;
}

static const sconce_plugin PLUGIN = {SCONCE_ABI_EPOCH, NULL, create, NULL};

const sconce_plugin *sconce_c_plugin_v1(const sconce_host *host) {
  (void)host;
  return &PLUGIN;
}
