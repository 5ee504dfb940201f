/* A hook in C that misbehaves as its configuration says, or, for the whole library, as these macros say:
 * ENTRY=0 the entry returns null, ENTRY=1 no `create`, ENTRY=2 a plugin of another epoch, ENTRY=3 `create` makes no hook;
 * AT=… other mount points in the metadata, LAX `call` does not look at the point. */
#include <signal.h>
#include <stdlib.h>

#include "sconce.h"

#ifndef ENTRY
#define ENTRY -1
#endif
#ifndef AT
#define AT SCONCE_AT(AFTER_ITER, "after_iter")
#endif

SCONCE_PLUGIN("faulty", "0.1.0", "Misbehaves.",
              SCONCE_HOOK("faulty", "Misbehaves as told.", 30, AT,
                          SCONCE_JSON({
                            "type": "object",
                            "properties": {"how": {"description": "What goes wrong.", "type": "string"}}
                          })));

typedef struct faulty {
  const sconce_c_table *c;
  const sconce_tensors_table *tensors;
  char how[32];
} faulty;

static int told(const faulty *self, const char *how) { return strcmp(self->how, how) == 0; }

static uint32_t call(void *instance, uint32_t point, const sconce_view *view, sconce_error *error) {
  faulty *self = (faulty *)instance;
  size_t index;
#ifndef LAX
  if (point != SCONCE_AFTER_ITER) return SCONCE_UNSUPPORTED;
#endif
  (void)point;
  if (told(self, "segv")) *(volatile int *)0 = 1;
  if (told(self, "abort")) abort();
  if (told(self, "error")) return sconce_fail(self->c, error, "it failed as told");
  if (told(self, "silent")) return SCONCE_ERROR;
  if (told(self, "unknown-status")) return 77;
  if (told(self, "leftover")) {
    /* It succeeds, and leaves the message of a failure that it has dealt with. */
    self->tensors->find(view->context, SCONCE_PARAMETERS, sconce_str("no such parameter"), &index, error);
    (void)sconce_fail(self->c, error, "a message that was left over");
    return SCONCE_OK;
  }
  if (told(self, "passed-on"))
    return self->tensors->find(view->context, SCONCE_PARAMETERS, sconce_str("no such parameter"), &index, error);
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
  (void)error;
  free(instance);
  return SCONCE_OK;
}

static const sconce_hook_table TABLE = {call, save_state, load_state, drop};

static uint32_t create(sconce_text kind, sconce_text config, const sconce_setup *setup, sconce_hook *hook,
                       sconce_error *error) {
  faulty *self = (faulty *)calloc(1, sizeof *self);
  size_t length = 0;
  (void)kind;
  if (self == NULL || ENTRY == 3) {
    free(self);
    return ENTRY == 3 ? SCONCE_OK : SCONCE_ERROR;
  }
  self->c = (const sconce_c_table *)setup->host->query(sconce_str(SCONCE_C_ID));
  self->tensors = (const sconce_tensors_table *)setup->host->query(sconce_str(SCONCE_TENSORS_ID));
  self->c->json_text(config, sconce_str("/how"), (uint8_t *)self->how, sizeof self->how - 1, &length);
  if (told(self, "refuse")) {
    self->c->set_error(error, sconce_str("`how`: refused as told"), sconce_str("faulty.c:1"));
    free(self);
    return SCONCE_CONFIG;
  }
  hook->instance = self;
  hook->table = &TABLE;
  return SCONCE_OK;
}

static const sconce_plugin PLUGIN = {ENTRY == 2 ? SCONCE_ABI_EPOCH + 1 : SCONCE_ABI_EPOCH, NULL,
                                     ENTRY == 1 ? NULL : create, NULL};

const sconce_plugin *sconce_c_plugin_v1(const sconce_host *host) {
  (void)host;
  return ENTRY == 0 ? NULL : &PLUGIN;
}
