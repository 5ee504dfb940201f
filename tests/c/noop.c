/* A hook in C that does nothing, for `tests/instructions.sh`: the counterpart of the fixture `noop`. */
#include "sconce.h"

SCONCE_PLUGIN("noop-in-c", "0.1.0", "Does nothing.",
              SCONCE_HOOK("noop-c", "Does nothing, at every mount point of an iteration.", 30,
                          SCONCE_AT(BEFORE_ITER, "before_iter") "," SCONCE_AT(AFTER_FORWARD, "after_forward") ","
                          SCONCE_AT(AFTER_LOSS, "after_loss") "," SCONCE_AT(AFTER_BACKWARD, "after_backward") ","
                          SCONCE_AT(BEFORE_UPDATE, "before_update") "," SCONCE_AT(AFTER_UPDATE, "after_update") ","
                          SCONCE_AT(AFTER_ITER, "after_iter"),
                          SCONCE_JSON({"type": "object", "additionalProperties": false})));

static char instance; /* it has nothing to remember */

/* With a `switch` as real hooks have. */
static uint32_t call(void *self, uint32_t point, const sconce_view *view, sconce_error *error) {
  (void)self, (void)view, (void)error;
  switch (point) {
    case SCONCE_BEFORE_ITER:
    case SCONCE_AFTER_FORWARD:
    case SCONCE_AFTER_LOSS:
    case SCONCE_AFTER_BACKWARD:
    case SCONCE_BEFORE_UPDATE:
    case SCONCE_AFTER_UPDATE:
    case SCONCE_AFTER_ITER: return SCONCE_OK;
    default: return SCONCE_UNSUPPORTED;
  }
}

static uint32_t save_state(void *self, sconce_bytes *state, sconce_error *error) {
  (void)self, (void)state, (void)error;
  return SCONCE_OK;
}

static uint32_t load_state(void *self, const uint8_t *state, size_t length, sconce_error *error) {
  (void)self, (void)state, (void)length, (void)error;
  return SCONCE_OK;
}

static uint32_t drop(void *self, sconce_error *error) {
  (void)self, (void)error;
  return SCONCE_OK;
}

static const sconce_hook_table TABLE = {call, save_state, load_state, drop};

static uint32_t create(sconce_text kind, sconce_text config, const sconce_setup *setup, sconce_hook *hook,
                       sconce_error *error) {
  (void)kind, (void)config, (void)setup, (void)error;
  hook->instance = &instance;
  hook->table = &TABLE;
  return SCONCE_OK;
}

static const sconce_plugin PLUGIN = {SCONCE_ABI_EPOCH, NULL, create, NULL};

const sconce_plugin *sconce_c_plugin_v1(const sconce_host *host) {
  (void)host;
  return &PLUGIN;
}
