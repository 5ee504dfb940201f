/* A hook in C that makes calls one after another and says what became of each, as the hook `caller` in Rust does
 * (tests/fixtures/faults/src/caller.rs), and after them those that other languages can't make. */
#include <stdio.h>
#include <stdlib.h>

#include "sconce.h"

SCONCE_PLUGIN("caller", "0.1.0", "Makes calls.",
              SCONCE_PUBLISHING_HOOK("c-caller", "Makes calls and says what became of them.", 50,
                                     SCONCE_AT(AFTER_ITER, "after_iter"), SCONCE_METRIC("*"),
                                     SCONCE_JSON({"type": "object"})));

typedef struct caller {
  const sconce_c_table *c;
  const sconce_log_table *log;
  const sconce_metrics_table *metrics;
  const sconce_tensors_table *tensors;
  const sconce_values_table *values;
  const sconce_requests_table *requests;
  char *config;
  size_t config_length;
  int is_done;
} caller;

/* The longest text of a call. */
#define CAPACITY 100000

static const struct {
  const char *name;
  uint32_t number;
} REQUESTS[] = {
  {"skip_batch", SCONCE_SKIP_BATCH},
  {"skip_update", SCONCE_SKIP_UPDATE},
  {"set_learning_rate", SCONCE_SET_LEARNING_RATE},
  {"scale_loss", SCONCE_SCALE_LOSS},
  {"save_checkpoint", SCONCE_SAVE_CHECKPOINT},
  {"roll_back", SCONCE_ROLL_BACK},
  {"unfreeze", SCONCE_FREEZE},
  {"set_accumulation", SCONCE_SET_ACCUMULATION},
  {"set_momentum", SCONCE_SET_MOMENTUM},
  {"set_weight_decay", SCONCE_SET_WEIGHT_DECAY},
};

static const float NUMBERS[2] = {1, 2};
static const int64_t SHAPE[1] = {2};
static const int64_t STRIDES[1] = {1};

/* Two numbers as a tensor without fault. */
static sconce_tensor numbers(void) {
  sconce_tensor tensor;
  memset(&tensor, 0, sizeof tensor);
  tensor.data = (void *)(uintptr_t)NUMBERS;
  tensor.byte_length = sizeof NUMBERS;
  tensor.shape = SHAPE;
  tensor.strides = STRIDES;
  tensor.dimensions = 1;
  tensor.device_type = 1;
  tensor.type_code = 2;
  tensor.type_bits = 32;
  tensor.type_lanes = 1;
  return tensor;
}

static uint32_t ask(caller *self, const void *context, const char *what, sconce_text text, double number, sconce_error *error) {
  size_t index;
  sconce_tensor tensor = numbers();
  if (strcmp(what, "publish") == 0) return self->metrics->publish(context, text, number, error);
  if (strcmp(what, "publish_value") == 0) return self->values->set(context, SCONCE_KEEP_RUN, text, sconce_str("1"), error);
  if (strcmp(what, "publish_tensor") == 0) return self->values->set_tensor(context, SCONCE_KEEP_RUN, text, &tensor, error);
  if (strcmp(what, "parameter") == 0) return self->tensors->find(context, SCONCE_PARAMETERS, text, &index, error);
  if (strcmp(what, "published_tensor") == 0) return self->tensors->find(context, SCONCE_PUBLISHED, text, &index, error);
  if (strcmp(what, "optimizer_tensor") == 0) return self->tensors->find(context, SCONCE_OPTIMIZER, text, &index, error);
  for (size_t i = 0; i < sizeof REQUESTS / sizeof *REQUESTS; i++)
    if (strcmp(what, REQUESTS[i].name) == 0)
      return self->requests->request(context, REQUESTS[i].number, number, text, error);
  return sconce_fail(self->c, error, "nothing is called so");
}

/* Logs what became of a call. */
static void answer(caller *self, const void *context, const char *call, uint32_t status, sconce_error *error) {
  sconce_text said = self->c->read_error(error);
  char line[1000];
  int length = (int)(said.length < 900 ? said.length : 900);
  if (status == SCONCE_OK)
    snprintf(line, sizeof line, "%s: done", call);
  else
    snprintf(line, sizeof line, "%s: %.*s", call, length, (const char *)said.pointer);
  self->log->log(context, SCONCE_INFO, sconce_str(line));
  self->c->clear_error(error);
}

static void make_calls(caller *self, const void *context, sconce_error *error) {
  sconce_text config = {(const uint8_t *)self->config, self->config_length};
  char *text = (char *)malloc(CAPACITY);
  if (text == NULL) return;
  for (int i = 0;; i++) {
    char pointer[64], what[64], name[16];
    double number = 0, times = 1;
    size_t length = 0, once = 0;
    snprintf(pointer, sizeof pointer, "/calls/%d/what", i);
    if (self->c->json_text(config, sconce_str(pointer), (uint8_t *)what, sizeof what - 1, &length) != SCONCE_OK) break;
    what[length] = 0;
    snprintf(pointer, sizeof pointer, "/calls/%d/text", i);
    self->c->json_text(config, sconce_str(pointer), (uint8_t *)text, CAPACITY, &once);
    snprintf(pointer, sizeof pointer, "/calls/%d/number", i);
    self->c->json_number(config, sconce_str(pointer), &number);
    snprintf(pointer, sizeof pointer, "/calls/%d/times", i);
    self->c->json_number(config, sconce_str(pointer), &times);
    length = once;
    for (; times > 1 && length + once <= CAPACITY; times--, length += once) memcpy(text + length, text, once);
    snprintf(name, sizeof name, "%d", i);
    sconce_text given = {(const uint8_t *)text, length};
    answer(self, context, name, ask(self, context, what, given, number, error), error);
  }
  free(text);
}

/* What only C can say: bytes that are not text, numbers that stand for nothing, memory that is not there. */
static void make_raw_calls(caller *self, const void *context, sconce_error *error) {
  static const uint8_t BYTES[] = {'a', 0xff, 0xfe};
  static const int64_t HUGE_SHAPE[2] = {INT64_MAX, 2}, NEGATIVE[1] = {-2}, FAR[1] = {2};
  const sconce_text bad = {BYTES, sizeof BYTES}, nothing = {NULL, 3}, good = sconce_str("ok");
  const char *names[] = {"shape",  "negative", "bytes",  "strides", "data", "no shape",
                         "device", "code",     "bits",   "lanes",   "dimensions"};
  size_t index;
  answer(self, context, "metric", self->metrics->publish(context, bad, 1, error), error);
  answer(self, context, "null", self->metrics->publish(context, nothing, 1, error), error);
  answer(self, context, "value", self->values->set(context, SCONCE_KEEP_RUN, bad, sconce_str("1"), error), error);
  answer(self, context, "json", self->values->set(context, SCONCE_KEEP_RUN, good, sconce_str("{1"), error), error);
  answer(self, context, "json bytes", self->values->set(context, SCONCE_KEEP_RUN, good, bad, error), error);
  answer(self, context, "keep", self->values->set(context, 99, good, sconce_str("1"), error), error);
  answer(self, context, "remove", self->values->remove(context, bad, error), error);
  answer(self, context, "find", self->tensors->find(context, SCONCE_PARAMETERS, bad, &index, error), error);
  answer(self, context, "collection", self->tensors->find(context, 99, good, &index, error), error);
  answer(self, context, "request", self->requests->request(context, 999, 1, good, error), error);
  answer(self, context, "tag", self->requests->request(context, SCONCE_SAVE_CHECKPOINT, 0, bad, error), error);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    sconce_tensor tensor = numbers();
    switch (i) {
      case 0: tensor.shape = HUGE_SHAPE, tensor.dimensions = 2, tensor.strides = HUGE_SHAPE; break;
      case 1: tensor.shape = NEGATIVE; break;
      case 2: tensor.byte_length = 4; break;
      case 3: tensor.strides = FAR; break;
      case 4: tensor.data = NULL; break;
      case 5: tensor.shape = NULL; break;
      case 6: tensor.device_type = 2; break;
      case 7: tensor.type_code = 77; break;
      case 8: tensor.type_bits = 12; break;
      case 9: tensor.type_lanes = 2; break;
      default: tensor.dimensions = 4000000000u; break;
    }
    answer(self, context, names[i], self->values->set_tensor(context, SCONCE_KEEP_RUN, good, &tensor, error), error);
  }
}

static uint32_t call(void *instance, uint32_t point, const sconce_view *view, sconce_error *error) {
  caller *self = (caller *)instance;
  if (point != SCONCE_AFTER_ITER) return SCONCE_UNSUPPORTED;
  if (self->is_done) return SCONCE_OK;
  self->is_done = 1;
  make_calls(self, view->context, error);
  make_raw_calls(self, view->context, error);
  return SCONCE_OK;
}

static uint32_t save_state(void *instance, sconce_bytes *state, sconce_error *error) {
  (void)instance, (void)state, (void)error;
  return SCONCE_OK;
}

static uint32_t load_state(void *instance, const uint8_t *state, size_t length, sconce_error *error) {
  (void)instance, (void)state, (void)length, (void)error;
  return SCONCE_OK;
}

static uint32_t drop(void *instance, sconce_error *error) {
  caller *self = (caller *)instance;
  (void)error;
  free(self->config);
  free(self);
  return SCONCE_OK;
}

static const sconce_hook_table TABLE = {call, save_state, load_state, drop};

static uint32_t create(sconce_text kind, sconce_text config, const sconce_setup *setup, sconce_hook *hook,
                       sconce_error *error) {
  caller *self = (caller *)calloc(1, sizeof *self);
  (void)kind, (void)error;
  if (self == NULL) return SCONCE_ERROR;
  self->config = (char *)malloc(config.length + 1);
  if (self->config == NULL) {
    free(self);
    return SCONCE_ERROR;
  }
  memcpy(self->config, config.pointer, config.length);
  self->config_length = config.length;
  self->c = (const sconce_c_table *)setup->host->query(sconce_str(SCONCE_C_ID));
  self->log = (const sconce_log_table *)setup->host->query(sconce_str(SCONCE_LOG_ID));
  self->metrics = (const sconce_metrics_table *)setup->host->query(sconce_str(SCONCE_METRICS_ID));
  self->tensors = (const sconce_tensors_table *)setup->host->query(sconce_str(SCONCE_TENSORS_ID));
  self->values = (const sconce_values_table *)setup->host->query(sconce_str(SCONCE_VALUES_ID));
  self->requests = (const sconce_requests_table *)setup->host->query(sconce_str(SCONCE_REQUESTS_ID));
  hook->instance = self;
  hook->table = &TABLE;
  return SCONCE_OK;
}

static const sconce_plugin PLUGIN = {SCONCE_ABI_EPOCH, NULL, create, NULL};

const sconce_plugin *sconce_c_plugin_v1(const sconce_host *host) {
  (void)host;
  return &PLUGIN;
}
