/* The hook `clip`: scales the gradients of an update so that the norm of all together is at most `max_norm`, and
 * publishes the norm that they had. Computes the same bits as the standard hook `grad-clip`. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "sconce.h"

/* What the host knows of this library before any of its code runs: `sconce inspect` prints it. */
SCONCE_PLUGIN("clip", "0.1.0", "Gradient clipping in C.",
              SCONCE_HOOK_ON_ALL_RANKS("clip", "Keeps the norm of all gradients small.", 40,
                                       SCONCE_AT(BEFORE_UPDATE, "before_update") "," SCONCE_AT(AFTER_RUN, "after_run"),
                                       SCONCE_METRIC("grad_norm"),
                                       SCONCE_JSON({
                                         "type": "object",
                                         "additionalProperties": false,
                                         "properties": {
                                           "max_norm": {
                                             "description": "Upper limit of the norm of all gradients together.",
                                             "type": "number",
                                             "exclusiveMinimum": 0,
                                             "default": 1
                                           }
                                         }
                                       }) SCONCE_ASKS("") SCONCE_READS(SCONCE_NAME("gradients"))));

/* One hook of a run. There may be several: nothing is global. */
typedef struct clip {
  const sconce_c_table *c;
  const sconce_log_table *log;
  const sconce_metrics_table *metrics;
  const sconce_tensors_table *tensors;
  double max_norm;
  uint64_t clipped; /* updates whose gradients were scaled */
} clip;

/* Elements whose squares are added up before they are added to the total. */
#define CHUNK 16384

/* The sum of the squares, in sixteen partial sums that a compiler can put into vector registers. */
static double sum_of_squares(const float *x, size_t length) {
  double sums[16] = {0};
  double total = 0;
  for (size_t i = 0; i < length; i++) sums[i % 16] += (double)x[i] * (double)x[i];
  for (size_t lane = 0; lane < 16; lane++) total += sums[lane];
  return total;
}

static void add_squares(const sconce_tensor *gradient, double *total) {
  const float *x = (const float *)gradient->data;
  size_t length = (size_t)(gradient->byte_length / sizeof(float));
  for (size_t begin = 0; begin < length; begin += CHUNK) {
    size_t rest = length - begin;
    *total += sum_of_squares(x + begin, rest < CHUNK ? rest : CHUNK);
  }
}

static void scale(const sconce_tensor *gradient, double *factor) {
  float *x = (float *)gradient->data;
  size_t length = (size_t)(gradient->byte_length / sizeof(float));
  for (size_t i = 0; i < length; i++) x[i] = (float)((double)x[i] * *factor);
}

/* Calls `use` with every gradient. Those that are lent for writing have no gaps between their elements. */
static uint32_t each_gradient(clip *self, const sconce_view *view, void (*use)(const sconce_tensor *, double *),
                              double *number, sconce_error *error) {
  size_t count = self->tensors->count(view->context, SCONCE_GRADIENTS);
  for (size_t i = 0; i < count; i++) {
    sconce_tensor gradient;
    uint32_t status = self->tensors->at(view->context, SCONCE_GRADIENTS, i, 1, &gradient, error);
    if (status == SCONCE_NOT_FOUND) continue; /* this parameter has none */
    if (status != SCONCE_OK) return status;   /* the host has said what failed */
    if (gradient.type_code != 2 || gradient.type_bits != 32)
      return sconce_fail(self->c, error, "the gradients are not 32-bit floats");
    use(&gradient, number);
  }
  return SCONCE_OK;
}

static uint32_t before_update(clip *self, const sconce_view *view, sconce_error *error) {
  double total = 0;
  uint32_t status = each_gradient(self, view, add_squares, &total, error);
  if (status != SCONCE_OK) return status;
  double norm = sqrt(total);
  status = self->metrics->publish(view->context, sconce_str("grad_norm"), norm, error);
  if (status != SCONCE_OK) return status;
  if (!isfinite(norm)) return sconce_fail(self->c, error, "the norm of the gradients is not finite");
  if (norm <= self->max_norm) return SCONCE_OK;
  self->clipped++;
  /* As in PyTorch: the small term keeps the quotient finite. */
  double factor = self->max_norm / (norm + 1e-6);
  return each_gradient(self, view, scale, &factor, error);
}

static uint32_t after_run(clip *self, const sconce_view *view) {
  char line[80];
  snprintf(line, sizeof line, "clipped %" PRIu64 " of %" PRIu64 " updates", self->clipped, view->update);
  return self->log->log(view->context, SCONCE_INFO, sconce_str(line));
}

static uint32_t call(void *instance, uint32_t point, const sconce_view *view, sconce_error *error) {
  clip *self = (clip *)instance;
  switch (point) {
    case SCONCE_BEFORE_UPDATE: return before_update(self, view, error);
    case SCONCE_AFTER_RUN: return after_run(self, view);
    default: return SCONCE_UNSUPPORTED;
  }
}

/* The state is JSON, so that checkpoints can be read. */
static uint32_t save_state(void *instance, sconce_bytes *state, sconce_error *error) {
  clip *self = (clip *)instance;
  char json[48];
  (void)error;
  int length = snprintf(json, sizeof json, "{\"clipped\":%" PRIu64 "}", self->clipped);
  self->c->append(state, (const uint8_t *)json, (size_t)length);
  return SCONCE_OK;
}

/* A checkpoint may be damaged, or from elsewhere: nothing changes before all of it is known to be right. */
static uint32_t load_state(void *instance, const uint8_t *state, size_t length, sconce_error *error) {
  clip *self = (clip *)instance;
  sconce_text json = {state, length};
  double clipped;
  if (self->c->json_number(json, sconce_str("/clipped"), &clipped) != SCONCE_OK || !(clipped >= 0 && clipped < 1e15) ||
      clipped != floor(clipped))
    return sconce_fail(self->c, error, "the state has no whole number `clipped`");
  self->clipped = (uint64_t)clipped;
  return SCONCE_OK;
}

static uint32_t drop(void *instance, sconce_error *error) {
  (void)error;
  free(instance);
  return SCONCE_OK;
}

static const sconce_hook_table TABLE = {call, save_state, load_state, drop};

/* The library has one kind, and the host asks for no other; it has checked `config` against the schema. */
static uint32_t create(sconce_text kind, sconce_text config, const sconce_setup *setup, sconce_hook *hook,
                       sconce_error *error) {
  const sconce_host *host = setup->host;
  clip *self = (clip *)calloc(1, sizeof *self);
  (void)kind;
  if (self == NULL) return SCONCE_ERROR;
  self->c = (const sconce_c_table *)host->query(sconce_str(SCONCE_C_ID));
  self->log = (const sconce_log_table *)host->query(sconce_str(SCONCE_LOG_ID));
  self->metrics = (const sconce_metrics_table *)host->query(sconce_str(SCONCE_METRICS_ID));
  self->tensors = (const sconce_tensors_table *)host->query(sconce_str(SCONCE_TENSORS_ID));
  if (self->c == NULL || self->log == NULL || self->metrics == NULL || self->tensors == NULL) {
    free(self);
    return SCONCE_UNSUPPORTED;
  }
  self->max_norm = 1;
  self->c->json_number(config, sconce_str("/max_norm"), &self->max_norm);
  if (!isfinite(self->max_norm)) {
    self->c->set_error(error, sconce_str("`max_norm`: it must be finite"), sconce_str(""));
    free(self);
    return SCONCE_CONFIG;
  }
  hook->instance = self;
  hook->table = &TABLE;
  return SCONCE_OK;
}

static const sconce_plugin PLUGIN = {SCONCE_ABI_EPOCH, NULL, create, NULL};

const sconce_plugin *sconce_c_plugin_v1(const sconce_host *host) {
  (void)host;
  return &PLUGIN;
}
